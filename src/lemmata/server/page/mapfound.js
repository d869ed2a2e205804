// What is lit on the map: the hits of a search, or a path from one thing to another.

import { get, post } from "./api.js";
import { address, h } from "./dom.js";
import { WEAK } from "./hit.js";
import { counted, parts, t } from "./language.js";
import { filterOf, read, write } from "./search.js";
import { shortName, shortened } from "./words.js";

const MOST = 100; // hits

// The search or path that the address names, else the search that was made last; null where there is neither.
export async function findLit(parameters) {
  if (parameters.get("path")) return path(parameters.getAll("path"));
  const wanted = parameters.get("q") !== null ? parameters : new URLSearchParams(sessionStorage.getItem("search") || "");
  return wanted.get("q")?.trim() ? search(read(wanted)) : null;
}

export function forget() {
  sessionStorage.removeItem("search");
}

async function search(state) {
  const body = { query: state.q, retriever: state.retriever, log: false, filter: filterOf(state) };
  const { hits, confidence } = await post("/search", { ...body, k: MOST });
  const first = confidence !== null && confidence < WEAK ? 0 : 10; // hits that are shown however they match
  const places = await placesOf(hits.map((hit) => hit.id));
  const found = hits.filter((hit, rank) => places[hit.id] && (rank < first || hit.confidence === null || hit.confidence >= WEAK));
  return {
    rows: found.map((hit) => places[hit.id].row),
    ways: new Map(),
    later: async () => (state.retriever === "lexical" ? new Map() : waysTo(body)),
    chip: [h("a", { href: `/?${write(state)}` }, t("{hits} for “{query}”", { hits: counted(found.length, "hit"), query: shortened(state.q, 40) }))],
    address: write(state),
  };
}

// By the row of a hit, the path that leads to it; they take longer than the hits, and there are none without a graph.
async function waysTo(body) {
  const { hits, nodes } = await post("/search", { ...body, k: 10, paths: true });
  const places = await placesOf(hits.flatMap((hit) => ends(hit.path)));
  const far = hits.filter((hit) => hit.path.length > 1 && places[hit.id]);
  return new Map(far.map((hit) => [places[hit.id].row, way(ends(hit.path), places, (id) => nodes[id]?.name)]));
}

async function path(ids) {
  const places = await placesOf(ids);
  const names = await Promise.all(ids.map((id) => nameOf(id)));
  const points = way(ids, places, (id) => names[ids.indexOf(id)]);
  return {
    rows: ids.map((id) => places[id]?.row).filter((row) => Number.isInteger(row)),
    ways: new Map([[-1, points]]),
    chip: parts("Path {from} → {to}", { from: h("a", { href: address(ids[0]) }, names[0]), to: h("a", { href: address(ids.at(-1)) }, names.at(-1)) }),
    address: new URLSearchParams(ids.map((id) => ["path", id])).toString(),
  };
}

async function nameOf(id) {
  const card = await get(`/cards/${encodeURIComponent(id)}`).catch(() => null);
  return shortened(card?.name || shortName(id), 28);
}

function ends(steps) {
  return steps.length ? [steps[0].source, ...steps.map((step) => step.target)] : [];
}

function way(ids, places, name) {
  return ids.filter((id) => places[id]).map((id) => ({ ...places[id], name: shortened(name(id) || shortName(id), 28) }));
}

async function placesOf(ids) {
  const wanted = [...new Set(ids)].filter(Boolean);
  const answers = [];
  for (let begin = 0; begin < wanted.length; begin += 200) answers.push(post("/map/places", { ids: wanted.slice(begin, begin + 200) }));
  return Object.assign({}, ...(await Promise.all(answers)).map(({ places }) => places));
}
