// One hit: its name, where it stands, an excerpt that opens in place, its path, and what to do with it.

import { get, post, workspace } from "./api.js";
import { address, dated, fromServer, h, heading, link, problem, row } from "./dom.js";
import { counted, decimal, language, t } from "./language.js";
import { family, kindWord, relationWords, shortName } from "./words.js";

export const WEAK = 0.5; // a confidence below it fades a hit
const SAME = 0.6; // share of common words from which on two hits say the same
const ALIKE = 0.4; // and from which on one goes with another that was refused

// Whether the query names it, by its name, number or code.
export function isNamed(hit) {
  return hit.confidence === 1;
}

// `refuse(hit)` leaves out what is like it; `only` is whether the corpus has one document, which need not be named.
export function card(hit, answer, { refuse, only, folded = [] }) {
  const isLog = hit.kind === "log";
  const titles = new Map([...(answer.facets?.locations || []).map(({ value, title }) => [value, title]), ...(isLog && hit.where !== hit.location?.[0] ? [[hit.location?.[0], hit.where]] : [])]);
  const isWeak = hit.confidence !== null && hit.confidence < WEAK;
  const from = [
    !isLog && !only && link(hit.document, "document", hit.document_title_html ? fromServer("span", null, hit.document_title_html) : hit.document_title || hit.document),
    hit.section && (hit.section_html ? fromServer("span", null, hit.section_html) : h("span", null, hit.section)),
    dated(hit),
    ...(hit.location || []).slice(0, 2).map((place) => [link(`location:${place}`, "location", h("span", { class: "mono" }, place)), titles.has(place) && ` ${titles.get(place)}`]),
  ].filter(Boolean);
  const body = hit.html ? fromServer("div", { class: "math excerpt" }, hit.html) : h("div", { class: "excerpt" }, hit.excerpt || hit.text || "");
  return h(
    "li", { class: `hit ${family(hit.kind)}${isWeak ? " weak" : ""}`, dataset: { id: hit.id } },
    h("h3", null, h("a", { href: address(hit.id), onclick: () => opened(answer.query, hit.id) }, h("span", { class: "kind" }, kindWord(hit.kind, hit.number, hit.printed)), heading(hit))),
    from.length > 0 && h("p", { class: "from" }, from.map((part, place) => [place ? " · " : "", part])),
    body,
    hit.path?.length > 1 && !isNamed(hit) && !isOverContents(hit.path) && !isOverQuery(hit.path, answer) && pathStrip(hit.path, answer.nodes || {}, hit),
    h(
      "p", { class: "foot" },
      isWeak && h("span", { title: t("It matches the query hardly better than a text that has nothing to do with it") }, t("weak match")),
      hit.cites && h("span", null, t("cites {hit}", { hit: hit.cites })),
      hit.repeats?.length > 0 && h("span", null, t("the same text stands in {places}", { places: counted(hit.repeats.length, "other place") })),
      actions(hit, answer, body, refuse),
    ),
    folded.length > 0 && h("details", { class: "folded" }, h("summary", null, t("{hits} much like this one", { hits: counted(folded.length, "hit") })), h("ul", { class: "neighbours" }, folded.map((other) => row(other)))),
  );
}

function actions(hit, answer, body, refuse) {
  const whole = h("button", { class: "plain mark", type: "button", "aria-expanded": "false", dataset: { open: "" } }, t("Read here"));
  whole.addEventListener("click", () => unfold(hit, body, whole));
  return h(
    "span", { class: "marks" },
    whole,
    h("a", { class: "plain button mark", href: `/?like=${encodeURIComponent(hit.id)}` }, t("More like this")),
    refuse && h("button", { class: "plain mark", type: "button", title: t(answer.isKept ? "Leave it and what is like it out, and mark it as no answer" : "Leave it and what is like it out"), onclick: () => refuse(hit) }, t("Not this")),
    refuse && marking(hit, answer),
  );
}

// The whole statement with its proof in place of the excerpt, and back.
async function unfold(hit, body, button) {
  const isOpen = button.getAttribute("aria-expanded") === "true";
  if (!isOpen && !body.nextElementSibling?.matches(".entire")) {
    try {
      const passage = await get(`/passages/${encodeURIComponent(hit.id)}`);
      const proof = passage.proof_html && h("details", { class: "proof" }, h("summary", null, t(passage.proof_name)), fromServer("div", { class: "math text" }, passage.proof_html));
      body.after(h("div", { class: "entire" }, fromServer("div", { class: "math text" }, passage.html), proof));
    } catch (error) {
      body.after(h("div", { class: "entire" }, problem(error)));
    }
  }
  body.hidden = !isOpen;
  body.nextElementSibling.hidden = isOpen;
  button.setAttribute("aria-expanded", String(!isOpen));
  button.textContent = t(isOpen ? "Read here" : "Show less");
}

// A button that says that a hit is the answer; pressed again, it takes it back.
function marking(hit, answer) {
  const button = h("button", { class: "plain mark", type: "button", hidden: true, "aria-label": t("This is the answer"), title: t("This is the answer; kept on the machine of the server only"), dataset: { mark: "answer" } }, t("✓ answer"));
  const draw = () => button.setAttribute("aria-pressed", String(answer.marks[hit.id] === "answer"));
  button.addEventListener("click", async () => {
    const chosen = answer.marks[hit.id] === "answer" ? "none" : "answer";
    try {
      await post("/mark", { query: answer.query, id: hit.id, mark: chosen });
      answer.marks[hit.id] = chosen;
      draw();
    } catch (error) {
      button.replaceWith(problem(error));
    }
  });
  workspace().then((health) => (button.hidden = health.log === "off"), () => {});
  draw();
  return button;
}

// Kept only where the settings of the workspace say so.
function opened(query, id) {
  workspace().then((health) => health.log === "openings" && query && post("/mark", { query, id, mark: "opened" }), () => {}).catch(() => {});
}

// ---------------------------------------------------------------- hits that are like each other

const words = new Map(); // id: the words of a hit

function wordsOf(hit) {
  if (!words.has(hit.id)) words.set(hit.id, new Set(hit.text.slice(0, 1500).toLowerCase().match(/[\p{L}\p{N}]{2,}/gu)));
  if (words.size > 500) words.delete(words.keys().next().value);
  return words.get(hit.id) || new Set();
}

function likeness(one, other) {
  const [first, second] = [wordsOf(one), wordsOf(other)];
  let common = 0;
  for (const word of first) common += second.has(word);
  return common / Math.max(1, first.size + second.size - common);
}

// Groups of hits that say nearly the same, each led by its best one.
export function folded(hits) {
  const groups = [];
  for (const hit of hits) {
    const group = wordsOf(hit).size > 5 && groups.find(([first]) => likeness(first, hit) >= SAME);
    if (group) group.push(hit);
    else groups.push([hit]);
  }
  return groups;
}

// The hits without those that were refused; what is like one of these comes last.
export function without(hits, refused) {
  const gone = hits.filter((hit) => refused.has(hit.id));
  const rest = hits.filter((hit) => !refused.has(hit.id));
  const isLike = (hit) => gone.some((other) => likeness(other, hit) >= ALIKE);
  return [...rest.filter((hit) => !isLike(hit)), ...rest.filter(isLike)];
}

// ---------------------------------------------------------------- the path that led to it

// Over a document or along the tree of locations: that passages stand in one book or plant explains no hit.
function isOverContents(path) {
  return path.some(({ relation }) => relation.endsWith("part_of"));
}

// Over a concept that the query names: that the hit speaks of it is marked in its text.
function isOverQuery(path, { query, nodes = {} }) {
  const asked = new Set(query.toLowerCase().match(/[\p{L}\p{N}]+/gu)?.map(stem));
  return path.some(({ target }) => nodes[target]?.kind === "concept" && nodes[target].name.toLowerCase().match(/[\p{L}\p{N}]+/gu)?.every((word) => asked.has(stem(word))));
}

function stem(word) {
  return word.slice(0, 6);
}

function pathStrip(path, nodes, hit) {
  const name = (id) => {
    if (id === hit.id) return h("span", { class: `node here ${family(hit.kind)}` }, t("this {kind}", { kind: language === "en" ? kindWord(hit.kind).toLowerCase() : kindWord(hit.kind) }));
    const node = nodes[id];
    if (!node) return h("span", { class: "node query" }, id === "query" ? t("query") : shortName(id));
    return h("a", { class: `node ${family(node.kind)}`, href: address(id, node.kind) }, heading({ ...node, id }));
  };
  const steps = path.map((step) => [
    h("span", { class: "edge" }, h("span", { class: "relation" }, relationWords(step.relation)), h("span", { class: "length", title: t("distance of this step: 0 is the same, less is nearer") }, decimal(step.length, 2))),
    name(step.target),
  ]);
  const whole = path.reduce((sum, step) => sum + step.length, 0);
  return h("div", { class: "path", role: "group", "aria-label": t("Path of {steps}, distance {distance}", { steps: counted(path.length, "step"), distance: decimal(whole, 2) }) }, name(path[0].source), steps);
}
