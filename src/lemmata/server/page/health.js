// Health: what is in the workspace, what was skipped and why, the models, and how well search was measured to work.

import { forgetWorkspace, workspace } from "./api.js";
import { counted, h, notice, number, sentence, svg } from "./dom.js";
import { kindWord } from "./words.js";

export async function show(main) {
  document.title = "Health – lemmata";
  forgetWorkspace();
  const state = await workspace();
  main.replaceChildren(
    h("h1", null, state.name || "Workspace"),
    h("p", { class: "lead" }, `${counted(state.passages, "passage")}, language ${LANGUAGES[state.language] || state.language || "unknown"}, generation ${state.generation}.`),
    ...problems(state),
    h(
      "div", { class: "cards" },
      panel("Passages", bars(state.kinds, kindWord)),
      panel("Graph", bars(state.graph?.edges || {}, (name) => name.replaceAll("_", " ")), nodes(state.graph?.nodes)),
      panel("Models", models(state)),
      panel("What auto uses", fusion((state.vectors || []).find((one) => one.default)?.fusion)),
      ...(state.evaluations || []).map(evaluation),
      panel(state.skipped ? `Skipped (${number(state.skipped)})` : "Skipped", skips(state)),
    ),
  );
}

const LANGUAGES = { en: "English", de: "German", "de+en": "German and English" };

function problems(state) {
  const found = [...(state.problems || []), state.note].filter(Boolean);
  if (!found.length) return [h("p", { class: "fine" }, "Everything is up to date.")];
  return found.map((problem) => notice(sentence(problem)));
}

function panel(heading, ...content) {
  return h("section", { class: "panel" }, h("h2", null, heading), content);
}

// Counts as bars, the largest first.
function bars(counts, name) {
  const rows = Object.entries(counts || {}).sort((a, b) => b[1] - a[1]);
  if (!rows.length) return h("p", { class: "small" }, "None.");
  const most = rows[0][1];
  const shown = rows.slice(0, 12);
  const rest = rows.slice(12).reduce((sum, [, count]) => sum + count, 0);
  return [
    h(
      "table", { class: "bars" },
      h("tbody", null, shown.map(([key, count]) => h("tr", null, h("th", { scope: "row" }, name(key)), h("td", null, bar(count / most)), h("td", { class: "number" }, number(count))))),
    ),
    rest > 0 && h("p", { class: "small" }, `and ${number(rest)} of ${rows.length - 12} other kinds`),
  ];
}

function bar(share, low, high) {
  const drawing = svg("svg", { class: "bar", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" }, svg("rect", { width: 100, height: 8, class: "ground" }), svg("rect", { width: Math.max(0.7, 100 * share), height: 8, class: "full" }));
  if (low !== undefined) drawing.append(svg("line", { x1: 100 * low, x2: 100 * high, y1: 4, y2: 4, class: "interval" }));
  return drawing;
}

function nodes(counts) {
  const parts = Object.entries(counts || {}).map(([kind, count]) => counted(count, kind));
  return parts.length ? h("p", { class: "small" }, parts.join(", ")) : null;
}

function models(state) {
  const vectors = Array.isArray(state.vectors) ? state.vectors : Object.entries(state.vectors || {}).map(([encoder, facts]) => ({ encoder, ...(typeof facts === "object" ? facts : {}) }));
  const rows = (state.encoders || []).map((encoder, place) => {
    const facts = vectors.find((one) => one?.encoder === encoder) || {};
    const about = [place === 0 && "search uses it", facts.dimension && `${facts.dimension} dimensions`, facts.bytes && `${(facts.bytes / 1e6).toFixed(1)} MB`].filter(Boolean);
    return h("li", null, h("span", { class: "mono" }, encoder), about.length ? h("span", { class: "small" }, ` ${about.join(", ")}`) : null);
  });
  const model = state.model ? h("p", null, "Answers are written by ", h("span", { class: "mono" }, state.model)) : h("p", { class: "small" }, "No language model is configured: Ask shows passages only.");
  return [rows.length ? h("ul", { class: "plainlist" }, rows) : h("p", { class: "small" }, "No vectors yet: run lemmata index."), model];
}

function fusion(chosen) {
  if (!chosen) return h("p", { class: "small" }, "Words only: there are no vectors yet.");
  const formula = h("p", { class: "formula" }, chosen.formula.replaceAll("dense", "meaning").replaceAll("lexical", "words"));
  if (!chosen.fitted) return [formula, h("p", { class: "small" }, "The weights that come with lemmata. Fit your own: lemmata evaluate --queries FILE --tune.")];
  const facts = Object.entries(chosen.fitted).filter(([, value]) => ["string", "number"].includes(typeof value));
  return [formula, h("p", { class: "small" }, "Fitted to validation queries of this corpus:"), h("dl", { class: "metadata" }, facts.map(([key, value]) => h("div", null, h("dt", null, key.replaceAll("_", " ")), h("dd", null, typeof value === "number" ? String(Math.round(value * 1000) / 1000) : value))))];
}

// One evaluation: a bar for each retriever, with its interval where there is one.
function evaluation(record) {
  const retrievers = Object.entries(record.retrievers || record.measures || {});
  const values = (facts) => facts.measures || facts;
  const measure = record.measure || ["MRR@10", "nDCG@10"].find((name) => retrievers.some(([, facts]) => name in values(facts))) || Object.keys(values(retrievers[0]?.[1] || {}))[0];
  const rows = retrievers.filter(([, facts]) => typeof values(facts)[measure] === "number").map(([name, facts]) => {
    const interval = facts.ci?.[measure];
    return h("tr", null, h("th", { scope: "row" }, name), h("td", null, bar(values(facts)[measure], ...(interval || []))), h("td", { class: "number" }, values(facts)[measure].toFixed(3)));
  });
  return panel(record.name || "Evaluation", h("p", { class: "small" }, [measure, record.queries && counted(record.queries, "query")].filter(Boolean).join(", ")), h("table", { class: "bars" }, h("tbody", null, rows)));
}

function skips(state) {
  if (!state.skipped) return h("p", { class: "fine" }, "Nothing: everything that was given was read.");
  const rows = state.skips.map((skip) => h("tr", null, h("td", { class: "mono" }, skip.line ? `${skip.file}:${skip.line}` : skip.file), h("td", null, skip.cause)));
  const rest = state.skipped - rows.length;
  return [h("div", { class: "scroll" }, h("table", { class: "skips" }, h("thead", null, h("tr", null, h("th", null, "File"), h("th", null, "Why"))), h("tbody", null, rows))), rest > 0 ? h("p", { class: "small" }, `and ${number(rest)} more: lemmata info`) : null];
}
