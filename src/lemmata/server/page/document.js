// A document with its contents, as a list of its passages or as a text to read on in.

import { get } from "./api.js";
import { tree } from "./contents.js";
import { address, fromServer, h, heading, link, logWords, row, title, waiting } from "./dom.js";
import { counted, day, moment, number, t } from "./language.js";
import { family, kindWord, shortName } from "./words.js";

const LISTED = 200; // passages of a page
const READ = 30; // of one to read

export async function show(main, { id, parameters, go }) {
  if (id.startsWith("location:")) return (await import("./place.js")).show(main, { id, parameters });
  const controller = new AbortController();
  main.replaceChildren(waiting(t("Reading …")));
  const read = parameters.get("read") === "1";
  const size = read ? READ : LISTED;
  const at = Math.max(0, Number(parameters.get("at")) || 0);
  const page = (offset, k = size) => get(`/outline?document=${encodeURIComponent(id)}&offset=${offset}&k=${k}${read ? "&whole=true" : ""}`, controller.signal);
  const outline = await page(at);
  const paper = outline.document;
  const isLogs = outline.passages[0]?.kind === "log";
  document.title = `${paper.title || id} – lemmata`;
  const here = (place, reads = read) => `/view/document/${encodeURIComponent(id)}?${reads ? "read=1&" : ""}at=${place}`;
  const list = h("div", { class: read ? "book" : "outline" });
  const contents = outline.contents.length > 1 && tree(outline.contents, (entry) => here(entry.place), jump);
  let [first, last] = [at, at];
  const add = (passages) => {
    (read ? addText : addRows)(list, passages, last);
    last += passages.length;
  };
  add(outline.passages);
  const more = h("button", { class: "plain more", type: "button", hidden: last >= outline.total }, t(isLogs ? "More logs" : read ? "Read on" : "More passages"));
  const earlier = h("a", { class: "plain button more", href: here(Math.max(0, at - size)), hidden: !first }, t("What stands before"));
  const follow = async () => {
    more.disabled = true;
    add((await page(last)).passages);
    more.disabled = false;
    more.hidden = last >= outline.total;
    watch();
  };
  more.addEventListener("click", follow);

  function jump(place) {
    const target = place >= first && place < last && list.querySelector(`[data-place="${place}"]`);
    if (!target) return go(here(place));
    target.scrollIntoView({ block: "start" });
    mark(place);
  }

  const position = h("p", { class: "small position" });
  function mark(place) {
    if (!contents) return;
    contents.mark(place);
    position.textContent = t("passage {number} of {total}", { number: number(place + 1), total: number(outline.total) });
  }

  // The passage at the top of the window tells the position.
  const observer = new IntersectionObserver(
    (entries) => {
      const seen = entries.filter((entry) => entry.isIntersecting).map((entry) => Number(entry.target.dataset.place));
      if (!seen.length) return;
      mark(Math.min(...seen));
    },
    { rootMargin: "-10% 0px -80% 0px" },
  );
  const watch = () => list.querySelectorAll("[data-place]:not([data-watched])").forEach((element) => ((element.dataset.watched = ""), observer.observe(element)));
  const search = `/?doc=${encodeURIComponent(paper.id)}`;
  const other = !isLogs && h("a", { class: "plain button", href: here(at, !read) }, t(read ? "List of its passages" : "Read it"));
  const article = h(
    "article", { class: "passage document" },
    h("p", { class: "from" }, [paper.authors?.join(", "), day(paper.date), paper.categories?.join(", ")].filter(Boolean).join(" · ")),
    h("h1", null, h("span", { class: "kind" }, kindWord(paper.form)), title(paper, shortName(paper.id))),
    h("p", { class: "foot" }, h("span", { class: "mono" }, shortName(paper.id)), outline.total > 0 && h("span", null, counted(outline.total, isLogs ? "log" : "passage"))),
    h("p", { class: "copies" }, other, h("a", { class: "plain button", href: search }, t("Search in this document"))),
    h("section", null, earlier, list, more),
  );
  const wide = matchMedia("(min-width: 60rem)").matches;
  const aside = contents && h("nav", { class: "sidebar", "aria-label": t("Contents") }, h("details", { open: wide }, h("summary", null, t("Contents")), position, contents.element));
  main.replaceChildren(contents ? h("div", { class: "withcontents" }, aside, article) : article);
  watch();
  mark(at);
  return () => {
    controller.abort();
    observer.disconnect();
  };
}

// ---------------------------------------------------------------- its passages, below the headings that they stand under

function addRows(list, passages, start) {
  bySection(list, passages, (passage, place, section) => {
    const group = section.querySelector("ul") || section.appendChild(h("ul", { class: "neighbours" }));
    const item = passage.kind === "log" ? logRow(passage) : row(passage.kind === "chunk" ? { ...passage, title: "" } : passage, "", passage.line ? source(passage) : moment(passage.date), passage.where);
    item.dataset.place = start + place;
    group.append(item);
  });
}

function addText(list, passages, start) {
  bySection(list, passages, (passage, place, section) => {
    const isText = passage.kind === "chunk";
    const name = !isText && h("h3", null, h("a", { href: address(passage.id) }, h("span", { class: "kind" }, kindWord(passage.kind, passage.number, passage.printed)), passage.title && heading(passage)));
    const where = h("a", { class: "source", href: address(passage.id), title: t("This passage on its own page") }, isText ? "¶" : source(passage));
    const proof = passage.proof_html && h("details", { class: "proof" }, h("summary", null, t(passage.proof_name)), fromServer("div", { class: "math text" }, passage.proof_html));
    section.append(h("div", { class: `${family(passage.kind)} ${isText ? "running" : "stated"}`, dataset: { place: start + place } }, name, fromServer("div", { class: "math text" }, passage.html), proof, where));
  });
}

function bySection(list, passages, put) {
  let group = list.lastElementChild;
  let section = list.dataset.section;
  const last = new Map(); // section: the place of its last statement
  passages.forEach((passage, place) => passage.kind !== "chunk" && last.set(passage.section, place));
  passages.forEach((passage, place) => {
    // a chunk of text may reach into the next section: it does not interrupt the present one
    const inside = passage.kind === "chunk" && last.get(section) > place;
    if (!group || (passage.section !== section && !inside)) {
      section = passage.section;
      const opening = list.className === "book" && h("h2", { class: "unseen" }, t("Beginning"));
      group = h("section", null, section ? h("h2", null, sectionName(passage)) : opening);
      list.append(group);
    }
    put(passage, place, group);
  });
  if (section !== undefined) list.dataset.section = section;
}

// The last of the headings above a passage; those above it stand before it, small.
function sectionName({ section, section_html: html }) {
  const parts = section.split(" / ");
  if (html) {
    const name = fromServer("span", null, html);
    const above = `${parts.slice(0, -1).join(" / ")} / `;
    if (parts.length < 2 || !name.firstChild.data?.startsWith(above)) return name; // a formula above
    name.firstChild.data = name.firstChild.data.slice(above.length);
    return [h("span", { class: "above" }, above.slice(0, -3)), name];
  }
  return [parts.length > 1 && h("span", { class: "above" }, parts.slice(0, -1).join(" / ")), parts.at(-1)];
}

function source({ file, line }) {
  return h("span", { class: "mono" }, line ? `${file.split("/").at(-1)}:${line}` : file);
}

function logRow(log) {
  return h(
    "li", { class: "log" },
    h("div", null, h("a", { href: address(log.id) }, h("time", { datetime: log.date }, moment(log.date) || log.id)), h("div", { class: "gist" }, logWords(log))),
    h("span", { class: "small" }, log.location.map((place) => link(`location:${place}`, "location", h("span", { class: "mono" }, place)))),
  );
}
