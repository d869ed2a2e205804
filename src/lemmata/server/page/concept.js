// A concept: its definition, the passages that mention it by kind, and the concepts that it is related to.

import { get } from "./api.js";
import { fromServer, h, heading, link, row, waiting } from "./dom.js";
import { number, parts, t } from "./language.js";
import { family, kindWord, relationWords } from "./words.js";

const SHOWN = 6; // passages of a kind before "more"
const KINDS = ["term", "result", "example", "prose", "log"]; // families, in the order in which they are shown

export async function show(main, { id }) {
  const controller = new AbortController();
  main.replaceChildren(waiting(t("Reading …")));
  const concept = await get(`/concepts/${encodeURIComponent(id)}`, controller.signal);
  document.title = `${concept.name} – lemmata`;
  const graph = h("section", null);
  const article = h(
    "article", { class: "passage term" },
    h("p", { class: "from" }, `${t("Concept")} · ${t(concept.kind)}`),
    h("h1", null, concept.name),
    concept.aliases.length > 0 && h("p", { class: "small" }, t("also called {names}", { names: concept.aliases.join(", ") })),
    definition(concept),
    h("p", { class: "copies" }, h("a", { class: "plain button", href: `/?q=${encodeURIComponent(concept.name)}` }, t("Search for it")), h("a", { class: "plain button", href: `/view/bridge?from=${encodeURIComponent(concept.id)}` }, t("Bridge from here"))),
    graph,
    groups(concept),
  );
  main.replaceChildren(h("div", { class: "reading" }, article, h("aside", { class: "beside", "aria-label": t("Related concepts") }, relations(concept))));
  related(concept, graph, controller.signal).catch(() => {}); // the page is complete without it
  return () => controller.abort();
}

function definition({ definition: defining, html }) {
  if (!defining) return [h("p", { class: "empty" }, t("No definition found.")), html && fromServer("div", { class: "math text" }, html)];
  return h("blockquote", { class: "defining" }, fromServer("div", { class: "math text" }, html || defining.html), h("p", { class: "from" }, link(defining.id, defining.kind, kindWord(defining.kind, defining.number, defining.printed), " ", defining.title && heading(defining)), defining.where && ` · ${defining.where}`));
}

async function related(concept, place, signal) {
  if (!concept.relations.length) return;
  const { amongConcepts, around } = await import("./around.js");
  const drawing = await around(concept.id, amongConcepts(signal));
  if (drawing) place.append(h("h2", null, t("Related concepts")), drawing);
}

// The passages that mention it, apart from its definition, by kind.
function groups(concept) {
  const passages = concept.passages.filter(({ id }) => id !== concept.definition?.id);
  const kinds = [...new Set(passages.map(({ kind }) => kind))].sort((a, b) => KINDS.indexOf(family(a)) - KINDS.indexOf(family(b)));
  const documents = new Set(concept.passages.map(({ where }) => where));
  const within = documents.size > 1 ? "" : [...documents][0];
  const rest = concept.passages_in_all - concept.passages.length;
  return [
    kinds.map((kind) => group(kindWord(kind), passages.filter((passage) => passage.kind === kind), within)),
    rest > 0 && h("p", { class: "small" }, parts("and {number} more: {search}", { number: number(rest), search: h("a", { href: `/?q=${encodeURIComponent(concept.name)}` }, t("search for it")) })),
  ];
}

function group(name, passages, within) {
  const rows = passages.map((passage) => row(passage, "", null, within));
  rows.slice(SHOWN).forEach((hidden) => (hidden.hidden = true));
  const more = rows.length > SHOWN && h("button", { class: "plain small", type: "button" }, t("{number} more", { number: rows.length - SHOWN }));
  if (more) more.addEventListener("click", () => (rows.forEach((hidden) => (hidden.hidden = false)), more.remove()));
  return h("section", { class: "group" }, h("h2", null, name, h("span", { class: "count" }, number(rows.length))), h("ul", { class: "neighbours wide" }, rows), more);
}

function relations(concept) {
  if (!concept.relations.length) return null;
  const rows = concept.relations.map((relation) => {
    const forwards = relation.source === concept.id;
    const other = forwards ? relation.target : relation.source;
    const stated = (relation.evidence || []).filter((id) => concept.nodes[id]).slice(0, 2);
    const name = (id) => kindWord(concept.nodes[id].kind, concept.nodes[id].number, concept.nodes[id].printed);
    return h("li", null, h("span", { class: "relation" }, relationWords(forwards ? relation.relation : `^${relation.relation}`)), " ", link(other, "concept", relation.name), stated.length > 0 && h("span", { class: "evidence" }, stated.map((id, place) => [place ? ", " : "", link(id, "passage", name(id))])));
  });
  return h("section", null, h("h2", null, t("Relations"), h("span", { class: "count" }, number(rows.length))), h("ul", { class: "relations" }, rows));
}
