// A document, or a location, with its passages in their order.

import { get } from "./api.js";
import { address, counted, excerpt, h, title, waiting } from "./dom.js";
import { day, family, kindWord, moment, nameOf, shortName } from "./words.js";

const PAGE = 200;

export async function show(main, { id }) {
  const controller = new AbortController();
  main.replaceChildren(waiting("Reading …"));
  const outline = await get(`/outline?k=${PAGE}&document=${encodeURIComponent(id)}`, controller.signal);
  const paper = outline.document;
  document.title = `${paper.title || id} – lemmata`;
  const list = h("div", { class: "outline" });
  add(list, outline.next_offset ? outline.passages : inFileOrder(outline.passages));
  const more = outline.next_offset && h("button", { class: "plain", type: "button" }, "More passages");
  let offset = outline.next_offset;
  more?.addEventListener("click", async () => {
    const next = await get(`/outline?k=${PAGE}&offset=${offset}&document=${encodeURIComponent(id)}`, controller.signal);
    add(list, next.passages);
    offset = next.next_offset;
    if (!offset) more.remove();
  });
  const place = paper.kind === "location";
  const around = place ? await near(id, controller.signal) : null;
  const search = place ? `/?loc=${encodeURIComponent(shortName(paper.id))}` : `/?doc=${encodeURIComponent(paper.id)}`;
  main.replaceChildren(
    h(
      "article", { class: "passage document" },
      h("p", { class: "from" }, [paper.authors?.join(", "), day(paper.date), paper.categories?.join(", ")].filter(Boolean).join(" · ")),
      h("h1", null, h("span", { class: "kind" }, kindWord(paper.kind)), title(paper, shortName(paper.id))),
      h("p", { class: "foot" }, h("span", { class: "mono" }, paper.id), outline.total > 0 && h("span", null, counted(outline.total, "passage"))),
      h("p", { class: "copies" }, h("a", { class: "plain button", href: search }, place ? "Search at this location" : "Search in this document")),
      around, list, more,
    ),
  );
  return () => controller.abort();
}

// What the graph has around a location: the place it is part of, its parts, and its logs.
async function near(id, signal) {
  const { nodes, edges } = await get(`/graph/${encodeURIComponent(id)}?limit=60`, signal).catch(() => ({ nodes: [], edges: [] }));
  const known = new Map(nodes.map((node) => [node.id, node]));
  const groups = { "Part of": [], Parts: [], Logs: [] };
  for (const { source, target, relation } of edges) {
    if (relation === "part_of" && source === id) groups["Part of"].push(known.get(target));
    else if (relation === "part_of" && target === id) groups.Parts.push(known.get(source));
    else if (relation === "reports_about" && target === id) groups.Logs.push(known.get(source));
  }
  return Object.entries(groups).filter(([, found]) => found.length).map(([heading, found]) =>
    h(
      "section", null, h("h2", null, heading),
      h("ul", { class: "neighbours" }, found.map((node) => h("li", { class: family(node.kind) }, h("a", { href: address(node.id, node.kind) }, node.kind === "log" ? node.id : h("span", { class: "mono" }, shortName(node.id))), node.kind === "log" ? h("div", { class: "gist" }, excerpt(node)) : title(node)))),
    ),
  );
}

// Statements and the text between them, as they stand in the files.
function inFileOrder(passages) {
  const files = [...new Set(passages.map((passage) => passage.file))];
  const place = (passage) => files.indexOf(passage.file) * 1e9 + (passage.line || 0);
  return [...passages].sort((a, b) => place(a) - place(b));
}

function add(list, passages) {
  let group = list.lastElementChild?.querySelector("ul");
  let section = list.dataset.section;
  for (const passage of passages) {
    if (passage.section !== section || !group) {
      section = passage.section;
      group = h("ul", { class: "neighbours" });
      list.append(h("section", null, section && h("h2", null, section), group));
    }
    const name = passage.kind === "chunk" ? "" : nameOf(passage);
    const where = passage.line ? `line ${passage.line}` : moment(passage.date);
    group.append(h("li", { class: family(passage.kind) }, h("a", { href: address(passage.id) }, h("span", { class: "kind" }, kindWord(passage.kind)), title(passage, passage.kind === "log" ? passage.id : name)), h("span", { class: "small mono" }, where)));
  }
  if (section !== undefined) list.dataset.section = section;
}
