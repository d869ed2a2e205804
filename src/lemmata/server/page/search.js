// Search: the box, the retriever, filters with counts, and the hits.

import { get, post, workspace } from "./api.js";
import { announce, copyButton, h, heading, problem, sentence } from "./dom.js";
import { failure } from "./failure.js";
import { home } from "./home.js";
import { counted, day, number, parts, t, typedDate } from "./language.js";
import { keeping, note } from "./remembered.js";
import { RETRIEVERS, autoWords, kindWord } from "./words.js";

const FACETS = [
  { key: "kind", field: "kinds", label: t("Kind"), show: (value) => kindWord(value) },
  { key: "chapter", field: "chapters", label: t("Chapter"), show: (value, names, record) => record.title || value },
  { key: "doc", field: "documents", label: t("Document"), show: (value, names, record) => record.title || names.get(value) || value },
  { key: "cat", field: "categories", label: t("Category"), show: (value) => value },
  { key: "loc", field: "locations", label: t("Location"), show: (value, names, record) => record.title || value, code: (value) => value },
];
const SHOWN = 7; // values of a facet before "more"
const PAGE = 10;

const memory = new Map(); // address: the answers that were shown there, so that going back is instant
const documentNames = new Map();
let drawing = null; // hit.js, which the start does not need
const loading = import("./hit.js").then((module) => (drawing = module));
loading.catch(() => {}); // told by the first search

export function show(main, { parameters, go }) {
  const state = read(parameters);
  const view = layout(main, state);
  let current = null; // the request in progress
  let timer = 0;
  const left = new AbortController(); // aborted when the view is left

  function update(change, { replace = false } = {}) {
    Object.assign(state, change);
    go(`/?${write(state)}`, { replace, quiet: true });
    run();
  }

  async function run() {
    current?.abort();
    view.explain(state);
    document.title = state.q ? `${state.q} – lemmata` : "lemmata";
    sessionStorage.setItem("search", state.q.trim() ? write(state) : ""); // which the map shows
    if (!state.q.trim() && !state.like) {
      begin();
      return;
    }
    const controller = (current = new AbortController());
    const known = memory.get(location.search);
    if (known) {
      render(known);
      return;
    }
    view.results.setAttribute("aria-busy", "true");
    try {
      const answer = await (state.like ? alike(state, controller.signal) : ask(state, 0, controller.signal));
      const [health] = await Promise.all([workspace().catch(() => null), loading]);
      [answer.only, answer.isKept] = [health?.documents === 1, health && health.log !== "off"];
      if (controller.signal.aborted) return;
      if (!state.like) [answer.facets, answer.hint] = await Promise.all([countedWithoutOwn(answer.facets, state, controller.signal), hintAt(answer, state, controller.signal)]);
      if (controller.signal.aborted) return; // the address is another one by now
      remember(location.search, answer);
      render(answer);
    } catch (error) {
      if (error.name === "AbortError") return;
      view.facets.replaceChildren();
      view.line.replaceChildren();
      view.results.replaceChildren(failure(error, run));
      view.results.removeAttribute("aria-busy");
    }
  }

  function render(answer) {
    view.results.removeAttribute("aria-busy");
    for (const hit of answer.hits) documentNames.set(hit.document, hit.document_title);
    drawFacets(view.facets, isUnanswered(answer) ? {} : answer.facets, state, update); // counts of what does not match tell nothing
    const line = state.like ? "" : isUnanswered(answer) ? "" : t("{hits} in {time} ms", { hits: howMany(answer), time: Math.max(1, Math.round(answer.took_ms)) });
    const legend = !isUnanswered(answer) && answer.hits.some((hit) => hit.path?.length > 1) && h("span", { class: "legendline" }, t("Numbers in a path are distances: 0 is the same, less is nearer."));
    view.line.replaceChildren(line, ...[legend, ...[answer.note, answer.hint].filter(Boolean).map((note) => h("span", { class: "cure" }, ` ${sentence(note)}`))].filter(Boolean));
    if (answer.also?.length) view.line.append(h("span", { class: "cure" }, ` ${t("Also searched for: {words}.", { words: answer.also.join(", ") })}`));
    if (answer.did_you_mean) {
      const meant = h("button", { class: "plain small meant", type: "button", onclick: () => ((view.box.value = answer.did_you_mean), update({ q: answer.did_you_mean })) }, answer.did_you_mean);
      view.line.append(" ", ...parts("Did you mean {query}?", { query: meant }));
    }
    if (answer.like) view.line.prepend(...parts("More like {passage}", { passage: h("b", null, answer.like) }), " ", h("button", { class: "plain small", type: "button", onclick: () => update({ like: "" }) }, t("Back to the start")));
    if (state.lost) view.line.append(h("span", { class: "cure" }, ` ${t("The points chosen on the map are not part of a link: this search looks everywhere.")}`));
    if (state.q) view.line.append(" ", h("span", { class: "sharing" }, keeping(`/?${write(state)}`), copyButton(t("Copy the link"), () => location.href), h("button", { type: "button", class: "plain small", onclick: () => print() }, t("Print"))));
    announce(answer.hits.length ? line || answer.note : t("nothing found"));
    if (!answer.hits.length) {
      const clear = filtered(state) && h("button", { class: "plain", onclick: () => update(emptyFilters()) }, t("Clear the filters"));
      view.results.replaceChildren(h("div", { class: "empty" }, h("p", null, t("Nothing found. Say it in other words, or ask with another retriever.")), clear));
      return;
    }
    const list = h("ol", { class: "hits" }, cards(answer, answer.hits));
    const gone = answer.hits.filter((hit) => refused(answer).has(hit.id));
    if (gone.length) view.line.append(` ${t(answer.isKept ? "{hits} left out, and marked as no answer." : "{hits} left out.", { hits: counted(gone.length, "hit") })} `, h("button", { class: "plain small", type: "button", onclick: () => restore(answer, gone) }, t("Show them again")));
    if (isUnanswered(answer)) {
      view.results.replaceChildren(h("details", { class: "nearest" }, h("summary", null, t("Show the nearest passages")), list));
      return;
    }
    view.results.replaceChildren(h("h2", { class: "unseen" }, t("Hits")), list);
    if (answer.next_offset) view.results.append(moreButton(answer, list));
  }

  function cards(answer, hits) {
    const { card, folded, isNamed, without } = drawing;
    const groups = folded(without(hits, refused(answer)));
    const shown = groups.map(([hit, ...others]) => card(hit, answer, { only: answer.only, folded: others, refuse: state.like ? null : (one) => refuse(answer, one) }));
    const others = groups.findIndex(([hit]) => !isNamed(hit));
    if (others > 0 && isNamed(groups[0][0])) shown.splice(others, 0, h("li", { class: "others" }, t("Other hits")));
    return shown;
  }

  function refused({ marks }) {
    return new Set([...state.not, ...Object.keys(marks).filter((id) => marks[id] === "wrong")]);
  }

  // What is refused is left out at once; where marks are kept, it is also marked as no answer.
  async function refuse(answer, hit) {
    state.not = [...state.not, hit.id];
    go(`/?${write(state)}`, { replace: true, quiet: true });
    remember(location.search, answer);
    render(answer);
    view.results.querySelector("h3 a")?.focus({ preventScroll: true });
    await markWrong(answer, hit, "wrong");
  }

  async function restore(answer, hits) {
    state.not = [];
    await Promise.all(hits.map((hit) => markWrong(answer, hit, "none")));
    go(`/?${write(state)}`, { replace: true, quiet: true });
    render(answer);
  }

  async function markWrong(answer, hit, mark) {
    const { log } = await workspace().catch(() => ({ log: "off" }));
    if (log === "off") return;
    await post("/mark", { query: answer.query, id: hit.id, mark }).then(() => (answer.marks[hit.id] = mark), () => {});
  }

  // Before anything is searched: what the filters allow, or the start page.
  async function begin() {
    view.facets.replaceChildren();
    view.line.replaceChildren();
    view.results.removeAttribute("aria-busy");
    view.results.replaceChildren();
    if (filtered(state)) {
      const limits = FACETS.flatMap(({ key, show }) => state[key].map((value) => show(value, documentNames, {})));
      const dates = [state.since && t("since {date}", { date: day(state.since) }), state.until && t("until {date}", { date: day(state.until) }), state.among && t("the points chosen on the map")];
      const clear = h("button", { class: "plain", type: "button", onclick: () => update(emptyFilters()) }, t("Search everywhere"));
      view.results.replaceChildren(h("p", { class: "lead" }, t("Your search will look at these only: {filters}.", { filters: [...limits, ...dates].filter(Boolean).join(", ") })), clear);
      return;
    }
    const parts = await home(go, begin, left.signal);
    if (!view.box.value.trim() && !state.like) view.results.replaceChildren(...parts);
  }

  function moreButton(answer, list) {
    const button = h("button", { class: "plain more" }, t("More hits"));
    button.addEventListener("click", async () => {
      button.disabled = true;
      try {
        const next = await ask(state, answer.next_offset);
        answer.hits.push(...next.hits);
        answer.nodes = { ...answer.nodes, ...next.nodes };
        answer.marks = { ...answer.marks, ...next.marks };
        answer.next_offset = next.next_offset;
        const more = cards(answer, next.hits);
        list.append(...more);
        more[0]?.querySelector("a").focus({ preventScroll: true });
        button.remove();
        if (answer.next_offset) view.results.append(moreButton(answer, list));
        view.line.firstChild.textContent = howMany(answer);
      } catch (error) {
        button.replaceWith(problem(error));
      }
    });
    return button;
  }

  view.box.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => update({ q: view.box.value, like: "", not: [] }, { replace: true }), 220);
  });
  view.form.addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(timer);
    update({ q: view.box.value, like: "" }, { replace: state.q === view.box.value });
    keep();
  });
  view.retriever.addEventListener("change", () => update({ retriever: view.retriever.value }));
  view.paths.addEventListener("change", () => update({ paths: view.paths.checked }));

  import("./complete.js").then(({ completion, leadsTo }) => {
    const completing = completion(view.box, (name) => {
      clearTimeout(timer);
      go(leadsTo(name));
    });
    view.form.querySelector(".box").append(completing.list);
  }, () => {});

  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const anchors = [...view.results.querySelectorAll(".hits > li h3 a")];
    const at = anchors.indexOf(document.activeElement);
    const inBox = document.activeElement === view.box;
    if (event.key === "ArrowDown" && anchors.length && (inBox || at >= 0 || document.activeElement === document.body)) {
      event.preventDefault();
      choose(anchors[Math.min(at + 1, anchors.length - 1)]);
    } else if (event.key === "ArrowUp" && at >= 0) {
      event.preventDefault();
      if (at === 0) view.box.focus();
      else choose(anchors[at - 1]);
    } else if (at >= 0 && (event.key === "ArrowRight" || event.key === "ArrowLeft")) {
      const button = anchors[at].closest("li").querySelector("[data-open]");
      if ((button.getAttribute("aria-expanded") === "true") !== (event.key === "ArrowRight")) button.click();
    }
  }
  const keep = () => note(`/?${write(state)}`);
  document.addEventListener("keydown", onKey);
  addEventListener("pagehide", keep);
  run();
  if (!matchMedia("(pointer: coarse)").matches && !memory.has(location.search)) view.box.focus();
  return () => {
    left.abort();
    keep();
    current?.abort();
    clearTimeout(timer);
    removeEventListener("pagehide", keep);
    document.removeEventListener("keydown", onKey);
  };
}

function choose(anchor) {
  anchor.focus({ preventScroll: true });
  anchor.closest("li").scrollIntoView({ block: "nearest", behavior: "instant" });
}

function remember(key, answer) {
  memory.set(key, answer);
  if (memory.size > 30) memory.delete(memory.keys().next().value);
}

// ---------------------------------------------------------------- the state is the address

export function read(parameters) {
  const among = parameters.get("among") || "";
  const isLost = Boolean(among) && !sessionStorage.getItem(`among:${among}`); // chosen in another browser
  return {
    q: parameters.get("q") || "",
    retriever: parameters.get("retriever") in RETRIEVERS ? parameters.get("retriever") : "auto",
    paths: parameters.get("paths") !== "0",
    since: parameters.get("since") || "",
    until: parameters.get("until") || "",
    among: isLost ? "" : among,
    lost: isLost,
    like: parameters.get("like") || "",
    not: parameters.getAll("not"),
    ...Object.fromEntries(FACETS.map(({ key }) => [key, parameters.getAll(key)])),
  };
}

export function write(state) {
  const parameters = new URLSearchParams();
  if (state.q) parameters.set("q", state.q);
  if (state.retriever !== "auto") parameters.set("retriever", state.retriever);
  if (!state.paths) parameters.set("paths", "0");
  for (const { key } of FACETS) for (const value of state[key]) parameters.append(key, value);
  for (const key of ["since", "until", "among", "like"]) if (state[key]) parameters.set(key, state[key]);
  for (const id of state.not) parameters.append("not", id);
  return parameters.toString();
}

function emptyFilters() {
  return { since: "", until: "", among: "", ...Object.fromEntries(FACETS.map(({ key }) => [key, []])) };
}

function filtered(state) {
  return Boolean(state.since || state.until || state.among || FACETS.some(({ key }) => state[key].length));
}

export function filterOf(state) {
  const filter = Object.fromEntries(FACETS.filter(({ key }) => state[key].length).map(({ key, field }) => [field, state[key]]));
  if (state.since) filter.since = state.since;
  if (state.until) filter.until = state.until;
  const ids = state.among ? JSON.parse(sessionStorage.getItem(`among:${state.among}`) || "[]") : [];
  if (ids.length) filter.ids = ids;
  return filter;
}

async function ask(state, offset, signal) {
  const health = await workspace().catch(() => null);
  const connected = !health || (Object.keys(health.graph?.edges || {}).length > 0 && health.encoders?.length > 0);
  const body = {
    query: state.q, k: PAGE, offset, retriever: state.retriever, html: true, facets: offset === 0,
    paths: state.paths && connected && state.retriever !== "lexical", filter: filterOf(state),
  };
  try {
    return await post("/search", body, signal);
  } catch (error) {
    if (!["workspace", "starting"].includes(error.code) || !body.paths) throw error;
    return post("/search", { ...body, paths: false }, signal); // no graph of this corpus: the hits come without paths
  }
}

// The passages nearest to one, as an answer.
async function alike(state, signal) {
  const [{ hits, nodes }, record] = await Promise.all([post("/similar", { id: state.like, k: 20, html: true, filter: filterOf(state) }, signal), get(`/cards/${encodeURIComponent(state.like)}`, signal)]);
  const like = [kindWord(record.kind, record.number, record.printed), " ", heading(record)];
  return { query: "", like: h("span", null, like), hits, nodes, marks: {}, facets: {}, confidence: null, note: "", also: [], next_offset: null };
}

function isUnanswered({ confidence }) {
  return confidence !== null && confidence < 0.5;
}

function howMany({ hits, next_offset: more }) {
  return more ? t("First {number} hits", { number: number(hits.length) }) : counted(hits.length, "hit");
}

// The counts of the hits; those of a facet in which something is chosen are of the hits without this choice, so that they
// say what another choice would find.
async function countedWithoutOwn(counts, state, signal) {
  const chosen = FACETS.filter(({ key }) => state[key].length);
  const answers = chosen.map(({ key }) => post("/search", { query: state.q, k: 1, retriever: state.retriever, facets: true, log: false, filter: filterOf({ ...state, [key]: [] }) }, signal));
  const others = await Promise.all(answers);
  return { ...counts, ...Object.fromEntries(chosen.map(({ field }, place) => [field, others[place].facets[field]])) };
}

// Meaning always finds something, even for a query of which the corpus has no word: then say so.
async function hintAt(answer, state, signal) {
  if (!answer.hits.length || answer.confidence !== null || answer.hits.some((hit) => hit.html.includes("<mark"))) return "";
  const { hits } = await post("/search", { query: state.q, k: 1, retriever: "lexical", log: false }, signal);
  return hits.length ? "" : t("no word of the query occurs in the corpus: these are the nearest by meaning, which may be far off");
}

// ---------------------------------------------------------------- parts of the view

function layout(main, state) {
  const box = h("input", {
    type: "search", name: "q", id: "query", value: state.q, placeholder: t("What are you looking for?"), autocomplete: "off", spellcheck: "false",
    "aria-label": t("Search the corpus"), maxlength: 2000,
  });
  const retriever = h(
    "select", { id: "retriever", "aria-describedby": "explained" },
    Object.entries(RETRIEVERS).map(([value, [name]]) => h("option", { value, selected: value === state.retriever }, name)),
  );
  const paths = h("input", { type: "checkbox", id: "paths", checked: state.paths });
  const explained = h("span", { id: "explained" });
  const form = h(
    "form", { role: "search", class: "search" },
    h("div", { class: "box" }, box, h("kbd", { class: "hint", "aria-hidden": "true" }, "/"), h("button", { class: "strong", type: "submit" }, t("Search|do it"))),
    h("div", { class: "how" }, h("label", { for: "retriever" }, t("by|retriever")), retriever, h("details", { class: "explained" }, h("summary", { "aria-label": t("How hits are found"), title: t("How hits are found") }, "i"), explained), h("label", { class: "check" }, paths, t("paths"))),
  );
  const facets = h("aside", { class: "facets", "aria-label": t("Filters") });
  const line = h("p", { class: "line" });
  const results = h("section", { class: "results", "aria-label": t("Hits") });
  main.replaceChildren(h("h1", { class: "unseen" }, t("Search")), form, h("div", { class: "columns" }, facets, h("div", { class: "found" }, line, results)));
  return {
    box, form, retriever, paths, facets, line, results,
    explain(now) {
      explained.textContent = RETRIEVERS[now.retriever][1];
      if (now.retriever === "auto") workspace().then((health) => now.retriever === "auto" && (explained.textContent = autoWords(health)), () => {});
      paths.disabled = now.retriever === "lexical" || now.retriever === "geodesic";
    },
  };
}

function drawFacets(place, counts, state, update) {
  const groups = FACETS.map((facet) => facetGroup(facet, counts[facet.field] || [], state, update)).filter(Boolean);
  const years = (counts.years || []).map(({ value }) => value).sort();
  if (years.length > 1 || state.since || state.until) groups.push(dates(years, state, update));
  const chosen = FACETS.flatMap(({ key }) => state[key]).length + Boolean(state.since) + Boolean(state.until) + Boolean(state.among);
  const clear = chosen > 0 && h("button", { class: "plain", type: "button", onclick: () => update(emptyFilters()) }, t(state.among ? "Search everywhere" : "Clear the filters"));
  const among = state.among && h("p", { class: "small" }, t("Only among the points chosen on the map."));
  const wide = matchMedia("(min-width: 60rem)").matches;
  const open = wide || place.querySelector("details")?.open;
  const counting = groups.length > 0 && h("p", { class: "small" }, t("Counts are of the first 200 hits."));
  const inside = [among, counting, groups, clear];
  place.replaceChildren(groups.length || among ? h("details", { open }, h("summary", null, chosen ? t("Filters ({number})", { number: chosen }) : t("Filters")), inside) : "");
}

function facetGroup({ key, label, show, code }, values, state, update) {
  const chosen = state[key];
  const listed = [...values, ...chosen.filter((value) => !values.some((other) => other.value === value)).map((value) => ({ value, count: 0 }))];
  if (listed.length < 2 && !chosen.length) return null;
  const rows = listed.map((record, place) => {
    const { value, count } = record;
    const box = h("input", { type: "checkbox", checked: chosen.includes(value) });
    box.addEventListener("change", () => update({ [key]: box.checked ? [...chosen, value] : chosen.filter((other) => other !== value) }));
    const hidden = place >= SHOWN && !chosen.includes(value);
    const name = show(value, documentNames, record);
    const under = code && code(value) !== name && h("span", { class: "label" }, code(value));
    return h("li", { hidden, title: name }, h("label", { class: "check" }, box, h("span", { class: "name" }, name, under), h("span", { class: "count" }, count || "")));
  });
  const more = rows.some((row) => row.hidden) && h("button", { class: "plain small", type: "button" }, t("{number} more", { number: rows.filter((row) => row.hidden).length }));
  const group = h("fieldset", { dataset: { facet: key } }, h("legend", null, label), h("ul", null, rows), more);
  if (more) more.addEventListener("click", () => (rows.forEach((row) => (row.hidden = false)), more.remove()));
  return group;
}

function dates(years, state, update) {
  const field = (key, label, example) => {
    const input = h("input", { type: "text", value: day(state[key]), placeholder: example || t("year"), size: 10, "aria-label": label, pattern: "\\s*(\\d{4}(-\\d\\d){0,2}|(\\d{1,2}\\. ?){1,2}\\d{4})\\s*", title: t("YYYY, YYYY-MM or YYYY-MM-DD") });
    // later: a field that is being replaced may tell of its change while the facets are drawn
    input.addEventListener("change", () => input.checkValidity() && queueMicrotask(() => update({ [key]: typedDate(input.value) })));
    return input;
  };
  return h("fieldset", { dataset: { facet: "date" } }, h("legend", null, t("Date")), h("div", { class: "dates" }, field("since", t("Since"), years[0]), "–", field("until", t("Until"), years.at(-1))));
}
