// Health: what is in the workspace, what was skipped and why, the models, and how well search was measured to work.

import { forgetWorkspace, workspace } from "./api.js";
import { h, notice, sentence, svg } from "./dom.js";
import { counted, decimal, number, parts, t } from "./language.js";
import { kindWord, passageWord, shortRelation, weights } from "./words.js";

export async function show(main) {
  document.title = `${t("Health")} – lemmata`;
  forgetWorkspace();
  const state = await workspace();
  main.replaceChildren(
    h("h1", null, state.name || t("Workspace")),
    h("p", { class: "lead" }, t("{passages} in {documents}, language {language}.", { passages: counted(state.passages, passageWord(state)), documents: counted(state.documents, "document"), language: LANGUAGES[state.language] || state.language || t("unknown") })),
    ...problems(state),
    h(
      "div", { class: "cards" },
      panel(t("Passages"), bars(state.kinds, (kind) => kindWord(kind))),
      panel(t("Graph"), bars(state.graph?.edges || {}, shortRelation), nodes(state.graph?.nodes)),
      panel(t("Models"), models(state)),
      panel(t("What auto weighs"), fusion(state.vectors.find((one) => one.default)?.fusion)),
      panel(state.skipped ? t("Skipped ({number})", { number: number(state.skipped) }) : t("Skipped"), skips(state)),
    ),
  );
}

const LANGUAGES = { en: t("English"), de: t("German"), "de+en": t("German and English") };

function problems(state) {
  const found = [...(state.problems || []), state.note].filter(Boolean);
  if (!found.length) return [h("p", { class: "fine" }, t("Everything is up to date."))];
  return found.map((problem) => notice(sentence(problem)));
}

function panel(heading, ...content) {
  return h("section", { class: "panel" }, h("h2", null, heading), content);
}

// Counts as bars, the largest first.
function bars(counts, name) {
  const rows = Object.entries(counts || {}).sort((a, b) => b[1] - a[1]);
  if (!rows.length) return h("p", { class: "small" }, t("None."));
  const most = rows[0][1];
  const shown = rows.slice(0, 12);
  const rest = rows.slice(12).reduce((sum, [, count]) => sum + count, 0);
  return [
    h(
      "table", { class: "bars" },
      h("tbody", null, shown.map(([key, count]) => h("tr", null, h("th", { scope: "row" }, name(key)), h("td", null, bar(count / most)), h("td", { class: "number" }, number(count))))),
    ),
    rest > 0 && h("p", { class: "small" }, t("{kinds}: {number} together", { kinds: counted(rows.length - 12, "other kind"), number: number(rest) })),
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
    const about = [facts.default && t("search uses it"), facts.dimension && counted(facts.dimension, "dimension"), facts.bytes && `${decimal(facts.bytes / 1e6, 1)} MB`, facts.summaries && counted(facts.summaries.summaries, "summary"), facts.up_to_date === false && t("out of date")].filter(Boolean);
    return h("li", null, h("span", { class: "mono" }, encoder), about.length ? h("span", { class: "small" }, ` ${about.join(", ")}`) : null);
  });
  const model = state.model ? h("p", null, parts("Answers are written by {model}", { model: h("span", { class: "mono" }, state.model) })) : h("p", { class: "small" }, t("No language model is configured: Ask shows passages only."));
  return [rows.length ? h("ul", { class: "plainlist" }, rows) : h("p", { class: "small" }, t("No vectors yet: run lemmata index.")), model];
}

const VARIANTS = { auto: "auto", default: t("default weights"), equal: t("equal weights"), dense: t("meaning alone"), lexical: t("words alone") };

// What auto weighs; where it was fitted, the measure of each variant as a bar.
function fusion(chosen) {
  if (!chosen) return h("p", { class: "small" }, t("Words only: there are no vectors yet."));
  const formula = h("p", { class: "formula" }, weights(chosen));
  if (!chosen.fitted) return [formula, h("p", { class: "small" }, t("The weights that come with lemmata. Fit your own: lemmata evaluate --queries FILE --tune."))];
  const { task, queries, measure, values } = chosen.fitted;
  const rows = Object.entries(values || {}).sort((one, other) => other[1] - one[1]);
  return [
    formula,
    h("p", { class: "small" }, t("Fitted to {queries} of {task}: {measure}", { queries: counted(queries, "query"), task: String(task).split("/").at(-1), measure })),
    h("table", { class: "bars" }, h("tbody", null, rows.map(([name, value]) => h("tr", null, h("th", { scope: "row" }, VARIANTS[name] || name), h("td", null, bar(value)), h("td", { class: "number" }, decimal(value, 3)))))),
  ];
}

function skips(state) {
  if (!state.skipped) return h("p", { class: "fine" }, t("Nothing: everything that was given was read."));
  const rows = state.skips.map((skip) => h("tr", null, h("td", { class: "mono" }, skip.line ? `${skip.file}:${skip.line}` : skip.file), h("td", null, skip.cause)));
  const rest = state.skipped - rows.length;
  return [h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("What was skipped") }, h("table", { class: "skips" }, h("thead", null, h("tr", null, h("th", null, t("File")), h("th", null, t("Why")))), h("tbody", null, rows))), rest > 0 ? h("p", { class: "small" }, t("and {number} more: lemmata info", { number: number(rest) })) : null];
}
