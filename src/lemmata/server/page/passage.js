// A passage with its proof, links and neighbours.

import { get, post, workspace } from "./api.js";
import { address, copyButton, dated, excerpt, fromServer, h, heading, link, logWords, problem, row, title, waiting } from "./dom.js";
import { counted, moment, number, t } from "./language.js";
import { predictedLink } from "./predicted.js";
import { family, kindWord, relationWords, shortName } from "./words.js";

export async function show(main, { id, go }) {
  const controller = new AbortController();
  main.replaceChildren(waiting(t("Reading …")));
  const passage = await get(`/passages/${encodeURIComponent(id)}`, controller.signal);
  const { document: paper } = passage;
  document.title = `${passage.name || shortName(id)} – lemmata`;
  const isLog = passage.kind === "log";
  const within = isLog ? "" : (passage.previous || passage.next)?.where; // what stands elsewhere says where
  const proof = passage.proof_html && h("details", { class: "proof" }, h("summary", null, t(passage.proof_name)), fromServer("div", { class: "math text" }, passage.proof_html));
  const article = h(
    "article", { class: `passage ${family(passage.kind)}` },
    h("p", { class: "from" }, link(paper.id, "document", title(paper, paper.id)), passage.section && [" · ", passage.section_html ? fromServer("span", null, passage.section_html) : passage.section], dated(passage) && [" · ", dated(passage)]),
    h("h1", null, h("span", { class: "kind" }, kindWord(passage.kind, passage.number, passage.printed)), (passage.title || !passage.number) && heading(passage)), // not what the text below begins with
    places(passage),
    fromServer("div", { class: "math text" }, passage.html),
    proof,
    turning(passage),
    copies(passage),
    h("p", { class: "foot" }, h("span", { class: "mono" }, passage.id), passage.file && h("span", { class: "mono" }, passage.line ? `${passage.file}:${passage.line}` : passage.file)),
    isLog && predictions(passage),
    incident(passage),
    timeline(passage),
    columns(passage.metadata),
  );
  const similar = h("section", null, h("h2", null, t("Similar")), waiting(t("Looking …")));
  const aside = h(
    "aside", { class: "beside", "aria-label": t("Around this passage") },
    neighbours(t(isLog ? "Refers to" : "Uses"), passage.uses.filter((other) => other.relation !== "reports_about"), within),
    neighbours(t(isLog ? "Referred to by" : "Used by"), passage.used_by, within),
    works(passage.works),
    concepts(passage.concepts),
    summaries(passage.summaries),
    similar,
  );
  main.replaceChildren(h("div", { class: "reading" }, article, aside));
  neighbourhood(passage.id, article, controller.signal).catch(() => {}); // the page is complete without it
  post("/similar", { id: passage.id, k: 6, html: true }, controller.signal).then(
    ({ hits }) => similar.replaceChildren(h("h2", null, t("Similar")), hits.length ? list(hits, within) : h("p", { class: "small" }, t("Nothing."))),
    (error) => error.name !== "AbortError" && similar.replaceChildren(h("h2", null, t("Similar")), problem(error)),
  );

  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, textarea, select")) return;
    if (event.key === "p" && proof) proof.open = !proof.open;
    else if (event.key === "[" && passage.previous) go(address(passage.previous.id));
    else if (event.key === "]" && passage.next) go(address(passage.next.id));
  }
  document.addEventListener("keydown", onKey);
  return () => {
    controller.abort();
    document.removeEventListener("keydown", onKey);
  };
}

// The neighbourhood in the graph; a workspace without one has none to show.
async function neighbourhood(id, article, signal) {
  const { graph } = await workspace();
  if (!Object.keys(graph?.edges || {}).length) return;
  const { around, inGraph } = await import("./around.js");
  const drawing = await around(id, inGraph(signal));
  if (drawing) article.append(h("section", null, h("h2", null, t("Around it in the graph")), drawing));
}

function copies(passage) {
  const text = passage.proof ? `${passage.text}\n\n${passage.proof_name}. ${passage.proof}` : passage.text;
  return h(
    "div", { class: "copies", role: "group", "aria-label": t("Copy") },
    h("span", { class: "small" }, t("Copy")),
    passage.latex ? copyButton(t("LaTeX text"), passage.latex_text) : copyButton(t("Text"), text),
    passage.latex && copyButton("\\cite", passage.latex),
    passage.bibtex && copyButton("BibTeX", passage.bibtex),
    copyButton(t("Link"), () => new URL(address(passage.id), location.href).href),
    h("button", { type: "button", class: "plain", onclick: () => print() }, t("Print")),
    h("a", { class: "plain button", href: `/view/bridge?from=${encodeURIComponent(passage.id)}` }, t("Bridge from here")),
  );
}

// The passages before and after it by name, and the way into the whole document.
function turning({ previous, next, place, document: paper }) {
  if (!previous && !next) return null;
  const beside = (record, words, rel) => h("a", { href: address(record.id), rel, class: family(record.kind) }, h("span", { class: "small" }, words), h("span", { class: "kind" }, kindWord(record.kind, record.number, record.printed)), heading(record));
  const whole = place !== null && h("a", { class: "whole", href: `/view/document/${encodeURIComponent(paper.id)}?read=1&at=${place}` }, t("Read on from here"), h("span", { class: "small" }, t("passage {number}", { number: number(place + 1) })));
  return h("nav", { class: "turning", "aria-label": t("In its document") }, previous ? beside(previous, t("← before"), "prev") : h("span"), whole, next ? beside(next, t("after →"), "next") : h("span"));
}

// The way from the root of the tree of locations to that of a log.
function places({ places: tree, location: names }) {
  if (tree?.length) {
    const rows = tree.reduceRight((below, place) => h("ul", null, h("li", null, link(place.id, "location", h("span", { class: "mono" }, shortName(place.id))), place.title && h("span", null, ` ${place.title}`), below)), null);
    return h("nav", { class: "tree", "aria-label": t("Location") }, rows);
  }
  return names?.length ? h("p", { class: "tree" }, names.map((name) => [link(`location:${name}`, "location", h("span", { class: "mono" }, name)), " "])) : null;
}

function predictions({ id, predicted }) {
  return predicted.length ? h("section", null, h("h2", null, t("Predicted")), predicted.map((record) => predictedLink(record, id))) : null;
}

function logRow(log) {
  return h("li", { class: log.here ? "here" : null, "aria-current": log.here ? "true" : null }, h("time", { datetime: log.date }, moment(log.date)), log.here ? h("span", null, t("this log")) : h("a", { href: address(log.id) }, logWords(log)));
}

// The logs that follow each other, from the first to the last.
function incident({ id, thread }) {
  if (!thread?.length) return null;
  return h("section", { class: "timeline incident" }, h("h2", null, t("Incident, {logs}", { logs: counted(thread.length, "log") })), h("ol", null, thread.map((log) => logRow({ ...log, here: log.id === id }))));
}

// Earlier and later logs of the same place.
function timeline({ id, earlier, later, date, text, title: name }) {
  if (!earlier?.length && !later?.length) return null;
  const shownBefore = earlier.slice(0, 6).reverse();
  const shownAfter = later.slice(0, 6);
  const more = (number, when) => (number > 0 ? h("li", { class: "small" }, t(when, { logs: counted(number, "log") })) : null);
  return h(
    "section", { class: "timeline" },
    h("h2", null, t("Logs of the same place")),
    h("ol", null, more(earlier.length - shownBefore.length, "{logs} before"), shownBefore.map(logRow), logRow({ id, date, text, title: name, here: true }), shownAfter.map(logRow), more(later.length - shownAfter.length, "{logs} after")),
  );
}

// What the file says besides; the location stands above.
function columns(metadata) {
  const rows = Object.entries(metadata || {}).filter(([key, value]) => !["environment", "number", "printed", "location"].includes(key) && ["string", "number", "boolean"].includes(typeof value) && value !== "");
  if (!rows.length) return null;
  return h("dl", { class: "metadata" }, rows.map(([key, value]) => h("div", null, h("dt", null, key), h("dd", null, String(value)))));
}

function neighbours(name, records, within) {
  if (!records.length) return null;
  return h("section", null, h("h2", null, name, h("span", { class: "count" }, records.length)), list(records, within));
}

// What it cites and the corpus does not have.
function works(records) {
  if (!records.length) return null;
  return h("section", null, h("h2", null, t("Cited works")), h("ul", { class: "works" }, records.map((work) => h("li", null, h("span", { class: "kind" }, work.name), fromServer("span", { class: "math" }, work.html)))));
}

const SHOWN = 8;

function list(records, within) {
  const rows = records.map((record) => row(record, record.relation && record.kind !== "log" && relationWords(record.relation), null, within));
  rows.slice(SHOWN).forEach((hidden) => (hidden.hidden = true));
  const all = h("ul", { class: "neighbours" }, rows);
  if (rows.length <= SHOWN) return all;
  const more = h("button", { class: "plain small", type: "button" }, t("{number} more", { number: rows.length - SHOWN }));
  more.addEventListener("click", () => (rows.forEach((hidden) => (hidden.hidden = false)), more.remove()));
  return [all, more];
}

function concepts(records) {
  if (!records.length) return null;
  return h("section", null, h("h2", null, t("Concepts")), h("ul", { class: "chips" }, records.map((concept) => h("li", null, link(concept.id, "concept", concept.name)))));
}

function summaries(records) {
  if (!records.length) return null;
  return h(
    "section", null, h("h2", null, t("Also found by")),
    h("ul", { class: "summaries" }, records.map((summary) => h("li", null, excerpt({ html: summary.html, excerpt: summary.text }), summary.author && summary.author !== "imported" && h("span", { class: "small" }, ` – ${summary.author}`)))),
  );
}
