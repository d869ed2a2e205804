// A concept: what it is called, what defines it, how it relates to others, and the passages that mention it.

import { get } from "./api.js";
import { address, excerpt, fromServer, h, heading, link, named, number, waiting } from "./dom.js";
import { family, kindWord, relationWords, shortName } from "./words.js";

export async function show(main, { id }) {
  const controller = new AbortController();
  main.replaceChildren(waiting("Reading …"));
  const concept = await get(`/concepts/${encodeURIComponent(id)}`, controller.signal);
  document.title = `${concept.name} – lemmata`;
  const { definition } = concept;
  const article = h(
    "article", { class: "passage term" },
    h("p", { class: "from" }, `Concept · ${concept.kind}`),
    h("h1", null, concept.name),
    concept.aliases.length > 0 && h("p", { class: "small" }, "also called ", concept.aliases.join(", ")),
    concept.html && fromServer("div", { class: "math text" }, concept.html),
    definition && h("p", { class: "from" }, "Defined in ", link(definition.id, definition.kind, kindWord(definition.kind, definition.number, definition.printed), " ", heading(definition))),
    h("p", { class: "copies" }, h("a", { class: "plain button", href: `/?q=${encodeURIComponent(concept.name)}` }, "Search for it"), h("a", { class: "plain button", href: `/view/bridge?from=${encodeURIComponent(concept.id)}` }, "Bridge from here")),
    relations(concept),
  );
  const passages = h("h2", null, "Passages", h("span", { class: "count" }, number(concept.passages_in_all ?? concept.passages.length)));
  const aside = h("aside", { class: "beside", "aria-label": "Passages that mention it" }, h("section", null, passages, h("ul", { class: "neighbours" }, concept.passages.slice(0, 60).map(row))));
  main.replaceChildren(h("div", { class: "reading" }, article, aside));
  return () => controller.abort();
}

function row(record) {
  return h(
    "li", { class: family(record.kind) },
    h("a", { href: address(record.id, record.kind) }, h("span", { class: "kind" }, kindWord(record.kind, record.number, record.printed)), named(record)),
    record.relation === "defines" && h("span", { class: "relation" }, "defines it"),
    h("div", { class: "gist" }, excerpt(record)),
  );
}

function relations(concept) {
  if (!concept.relations.length) return null;
  const rows = concept.relations.map((relation) => {
    const forwards = relation.source === concept.id;
    const other = forwards ? relation.target : relation.source;
    return h(
      "li", null,
      h("span", { class: "relation" }, relationWords(forwards ? relation.relation : `^${relation.relation}`)), " ", link(other, "concept", relation.name || shortName(other)),
      relation.evidence?.length > 0 && h("span", { class: "evidence" }, " stated in ", relation.evidence.slice(0, 3).map((id, place) => [place ? ", " : "", link(id, "passage", shortName(id))])),
    );
  });
  return h("section", null, h("h2", null, "Relations"), h("ul", { class: "relations" }, rows));
}
