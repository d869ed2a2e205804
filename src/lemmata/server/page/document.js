// A document, or a location, with its passages in their order.

import { get } from "./api.js";
import { address, counted, excerpt, h, link, named, number, title, waiting } from "./dom.js";
import { day, family, kindWord, moment, shortName } from "./words.js";

const PAGE = 200;

export async function show(main, { id }) {
  const controller = new AbortController();
  main.replaceChildren(waiting("Reading …"));
  const outline = await get(`/outline?k=${PAGE}&document=${encodeURIComponent(id)}`, controller.signal);
  const paper = outline.document;
  const isPlace = paper.kind === "location";
  document.title = `${paper.title || id} – lemmata`;
  const list = h("div", { class: "outline" });
  add(list, outline.passages);
  const isLogs = isPlace || outline.passages[0]?.kind === "log";
  const more = outline.next_offset && h("button", { class: "plain", type: "button" }, isLogs ? "More logs" : "More passages");
  let offset = outline.next_offset;
  more?.addEventListener("click", async () => {
    const next = await get(`/outline?k=${PAGE}&offset=${offset}&document=${encodeURIComponent(id)}`, controller.signal);
    add(list, next.passages);
    offset = next.next_offset;
    if (!offset) more.remove();
  });
  const search = isPlace ? `/?loc=${encodeURIComponent(shortName(paper.id))}` : `/?doc=${encodeURIComponent(paper.id)}`;
  const article = h(
    "article", { class: "passage document" },
    h("p", { class: "from" }, [paper.authors?.join(", "), day(paper.date), paper.categories?.join(", ")].filter(Boolean).join(" · ")),
    h("h1", null, h("span", { class: "kind" }, kindWord(paper.kind)), title(paper, shortName(paper.id))),
    h("p", { class: "foot" }, h("span", { class: "mono" }, shortName(paper.id)), outline.total > 0 && h("span", null, counted(outline.total, isLogs ? "log" : "passage"))),
    h("p", { class: "copies" }, h("a", { class: "plain button", href: search }, isPlace ? "Search at this location" : "Search in this document")),
    places("Part of", outline.above),
    places("Parts", outline.parts),
    h("section", null, isPlace && outline.total > 0 && h("h2", null, "Logs, the newest first, follow-ups below what they follow"), list, more),
  );
  main.replaceChildren(article);
  return () => controller.abort();
}

function places(heading, records) {
  if (!records.length) return null;
  const rows = records.map((place) => h("li", { class: "log" }, link(place.id, "location", h("span", { class: "mono" }, shortName(place.id))), place.title, h("span", { class: "count" }, number(place.passages))));
  return h("section", null, h("h2", null, heading), h("ul", { class: "neighbours" }, rows));
}

function add(list, passages) {
  let group = list.lastElementChild?.querySelector("ul");
  let section = list.dataset.section;
  const last = new Map(); // section: the place of its last statement
  passages.forEach((passage, place) => passage.kind !== "chunk" && last.set(passage.section, place));
  passages.forEach((passage, place) => {
    // a chunk of text may reach into the next section: it does not interrupt the present one
    const inside = passage.kind === "chunk" && last.get(section) > place;
    if (!group || (passage.section !== section && !inside)) {
      section = passage.section;
      group = h("ul", { class: "neighbours" });
      list.append(h("section", null, section && h("h2", null, section), group));
    }
    group.append(passage.kind === "log" ? logRow(passage) : row(passage));
  });
  if (section !== undefined) list.dataset.section = section;
}

function row(passage) {
  const where = passage.line ? `line ${passage.line}` : moment(passage.date);
  return h(
    "li", { class: family(passage.kind) },
    h("div", null, h("a", { href: address(passage.id) }, h("span", { class: "kind" }, kindWord(passage.kind, passage.number, passage.printed)), named(passage)), h("div", { class: "gist" }, excerpt(passage))),
    h("span", { class: "small mono" }, where),
  );
}

function logRow(log) {
  return h(
    "li", { class: log.is_follow_up ? "log followup" : "log" },
    h("div", null, h("a", { href: address(log.id) }, h("time", { datetime: log.date }, moment(log.date) || log.id)), h("div", { class: "gist" }, excerpt(log))),
    h("span", { class: "small" }, log.location.map((place) => link(`location:${place}`, "location", h("span", { class: "mono" }, place)))),
  );
}
