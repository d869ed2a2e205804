// Health: what is in the workspace, what was skipped and why, the models, and how well search was measured to work.

import { forgetWorkspace, workspace } from "./api.js";
import { counted, h, notice, number, sentence, svg } from "./dom.js";
import { kindWord, passageWord, weights } from "./words.js";

export async function show(main) {
  document.title = "Health – lemmata";
  forgetWorkspace();
  const state = await workspace();
  main.replaceChildren(
    h("h1", null, state.name || "Workspace"),
    h("p", { class: "lead" }, `${counted(state.passages, passageWord(state))} in ${counted(state.documents, "document")}, language ${LANGUAGES[state.language] || state.language || "unknown"}.`),
    ...problems(state),
    h(
      "div", { class: "cards" },
      panel("Passages", bars(state.kinds, kindWord)),
      panel("Graph", bars(state.graph?.edges || {}, (name) => name.replaceAll("_", " ")), nodes(state.graph?.nodes)),
      panel("Models", models(state)),
      panel("What auto weighs", fusion(state.vectors.find((one) => one.default)?.fusion)),
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
    rest > 0 && h("p", { class: "small" }, `${counted(rows.length - 12, "other kind")}: ${number(rest)} together`),
  ];
}

function bar(share) {
  return svg("svg", { class: "bar", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" }, svg("rect", { width: 100, height: 8, class: "ground" }), svg("rect", { width: Math.max(0.7, 100 * share), height: 8, class: "full" }));
}

function nodes(counts) {
  const parts = Object.entries(counts || {}).map(([kind, count]) => counted(count, kind));
  return parts.length ? h("p", { class: "small" }, parts.join(", ")) : null;
}

function models(state) {
  const rows = state.encoders.map((encoder) => {
    const facts = state.vectors.find((one) => one.encoder === encoder) || {};
    const about = [facts.default && "search uses it", facts.dimension && `${facts.dimension} dimensions`, facts.bytes && `${(facts.bytes / 1e6).toFixed(1)} MB`, facts.summaries && counted(facts.summaries.summaries, "summary"), facts.up_to_date === false && "out of date"].filter(Boolean);
    return h("li", null, h("span", { class: "mono" }, encoder), about.length ? h("span", { class: "small" }, ` ${about.join(", ")}`) : null);
  });
  const model = state.model ? h("p", null, "Answers are written by ", h("span", { class: "mono" }, state.model)) : h("p", { class: "small" }, "No language model is configured: Ask shows passages only.");
  return [rows.length ? h("ul", { class: "plainlist" }, rows) : h("p", { class: "small" }, "No vectors yet: run lemmata index."), model];
}

const VARIANTS = { auto: "auto", default: "default weights", equal: "equal weights", dense: "meaning alone", lexical: "words alone" };

// What auto weighs; where it was fitted, the measure of each variant as a bar.
function fusion(chosen) {
  if (!chosen) return h("p", { class: "small" }, "Words only: there are no vectors yet.");
  const formula = h("p", { class: "formula" }, weights(chosen));
  if (!chosen.fitted) return [formula, h("p", { class: "small" }, "The weights that come with lemmata. Fit your own: lemmata evaluate --queries FILE --tune.")];
  const { task, queries, measure, values } = chosen.fitted;
  const rows = Object.entries(values || {}).sort((one, other) => other[1] - one[1]);
  return [
    formula,
    h("p", { class: "small" }, `Fitted to ${counted(queries, "query")} of ${String(task).split("/").at(-1)}: ${measure}`),
    h("table", { class: "bars" }, h("tbody", null, rows.map(([name, value]) => h("tr", null, h("th", { scope: "row" }, VARIANTS[name] || name), h("td", null, bar(value)), h("td", { class: "number" }, value.toFixed(3)))))),
  ];
}

function skips(state) {
  if (!state.skipped) return h("p", { class: "fine" }, "Nothing: everything that was given was read.");
  const rows = state.skips.map((skip) => h("tr", null, h("td", { class: "mono" }, skip.line ? `${skip.file}:${skip.line}` : skip.file), h("td", null, skip.cause)));
  const rest = state.skipped - rows.length;
  return [h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "What was skipped" }, h("table", { class: "skips" }, h("thead", null, h("tr", null, h("th", null, "File"), h("th", null, "Why"))), h("tbody", null, rows))), rest > 0 ? h("p", { class: "small" }, `and ${number(rest)} more: lemmata info`) : null];
}
