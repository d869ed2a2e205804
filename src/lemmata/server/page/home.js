// The start: queries to try, the contents of a book, its concepts, the places of a plant, what was added last, all documents.

import { get, getPatiently, workspace } from "./api.js";
import { h, link, row, sentence, title } from "./dom.js";
import { failure } from "./failure.js";
import { counted, number, t } from "./language.js";
import { remembered } from "./remembered.js";
import { passageWord, shortName } from "./words.js";

const FEW = 3; // documents whose contents are shown

// The parts of the start page; `go` opens an address, `again` draws the page once more, `signal` says that it was left.
export async function home(go, again, signal) {
  const [health, concepts, outline] = await Promise.all([
    workspace().catch((error) => error),
    get("/concepts?k=24").catch(() => ({ concepts: [] })),
    get("/outline?k=60").catch(() => ({ documents: [] })),
  ]);
  if (health instanceof Error) return [failure(health, again)];
  const documents = outline.documents || [];
  const places = outline.locations || [];
  const held = places.length ? counted(health.graph.nodes?.location || places.length, "location") : counted(outline.total ?? health.documents, "document");
  const books = documents.length <= FEW && !places.length && h("div", null);
  const listed = documents.length > 0 && section(t("Documents"), h("ul", { class: "documents" }, documents.map((document) => h("li", null, link(document.id, "document", title(document, document.id)), h("span", { class: "count" }, number(document.passages))))), outline.total > documents.length && h("p", { class: "small" }, t("and {number} more", { number: number(outline.total - documents.length) })));
  if (books) Promise.all(documents.map((document) => contents(document, go))).then((trees) => books.append(...(trees.some(Boolean) ? trees : [listed]).filter(Boolean)));
  const [tries, newest] = [section(t("Try"), h("p", { class: "room" })), h("div", null)];
  const start = getPatiently("/start", signal).catch(() => ({ examples: [], added: [] })); // takes searches: after all others, and nobody waits
  start.then(({ examples, added }) => {
    if (examples.length) tries.lastChild.replaceWith(h("ul", { class: "chips queries" }, examples.map((query) => h("li", null, h("a", { href: `/?q=${encodeURIComponent(query)}` }, query)))));
    else tries.hidden = true;
    if (added.length) newest.append(section(places.length ? t("Newest logs") : t("Added last"), h("ul", { class: "neighbours" }, added.map((record) => row(record)))));
  });
  const main = [
    ...remembered(),
    tries,
    concepts.concepts.length > 0 && section(t("Concepts"), h("ul", { class: "chips" }, concepts.concepts.map((concept) => h("li", null, link(concept.id, "concept", concept.name, h("span", { class: "count" }, number(concept.passages))))))),
    newest,
    places.length > 0 && section(t("Locations"), h("ul", { class: "documents" }, places.map((place) => h("li", null, link(place.id, "location", place.title || shortName(place.id)), h("span", { class: "small mono" }, ` ${shortName(place.id)}`), h("span", { class: "count" }, number(place.passages)))))),
    !books && listed,
  ].filter(Boolean);
  return [
    h("p", { class: "lead" }, t("{passages} in {documents}. Ask in your own words.", { passages: counted(health.passages, passageWord(health)), documents: held })),
    health.note && h("p", { class: "cure" }, sentence(health.note)),
    books ? h("div", { class: "start" }, h("div", null, main), books) : main,
  ].flat().filter(Boolean);
}

function section(name, ...content) {
  return h("section", null, h("h2", null, name), content);
}

async function contents(document, go) {
  const { tree } = await import("./contents.js");
  const outline = await get(`/outline?k=1&document=${encodeURIComponent(document.id)}`).catch(() => ({ contents: [] }));
  if (outline.contents.length < 2) return null;
  const at = (place) => `/view/document/${encodeURIComponent(document.id)}?read=1&at=${place}`;
  const drawn = tree(outline.contents, (entry) => at(entry.place), (place) => go(at(place)));
  return h("section", null, h("h2", null, link(document.id, "document", title(document, document.id))), drawn.element);
}
