// Health: what is in the workspace, what was skipped and why, the models, and how well search was measured to work.

import { forgetWorkspace, get, workspace } from "./api.js";
import { h, notice, sentence, svg } from "./dom.js";
import { counted, decimal, number, parts, said, t, time } from "./language.js";
import { kindWord, passageWord, shortRelation, weights } from "./words.js";

export async function show(main) {
  document.title = `${t("Health")} – lemmata`;
  forgetWorkspace();
  const [state, quality, progress] = await Promise.all([workspace(), get("/quality").catch(() => null), get("/v1/progress").catch(() => null)]);
  main.replaceChildren(
    h("h1", null, state.name || t("Workspace")),
    h("p", { class: "lead" }, t("{passages} in {documents}, language {language}.", { passages: counted(state.passages, passageWord(state)), documents: counted(state.documents, "document"), language: LANGUAGES[state.language] || state.language || t("unknown") })),
    ...problems(state, progress?.state === "working"),
    h(
      "div", { class: "cards" },
      panel(t("Passages"), bars(state.kinds, (kind) => kindWord(kind))),
      panel(t("Graph"), bars(state.graph?.edges || {}, shortRelation), nodes(state.graph?.nodes)),
      panel(t("Models"), models(state)),
      panel(t("What auto weighs"), fusion(state.vectors.find((one) => one.default)?.fusion, quality?.fitted)),
      quality && panel(t("Last evaluation"), evaluation(quality.evaluation)),
      quality && panel(t("Marks"), marks(quality.marks, state.log)),
    ),
    ...(quality ? [panel(t("Adaptation"), adaptations(quality.adaptations))] : []),
    panel(state.skipped ? t("Skipped ({number})", { number: number(state.skipped) }) : t("Skipped"), skips(state)),
  );
}

const LANGUAGES = { en: t("English"), de: t("German"), "de+en": t("German and English") };

// While a folder is being made searchable, the line at the top says how far that is: nothing is out of date, but not all is there.
function problems(state, isWorking) {
  const found = [...(state.problems || []), !isWorking && state.note].filter(Boolean);
  if (isWorking) found.unshift(t("What is listed here is ready; the rest is still being made."));
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
    const about = [facts.default && t("search uses it"), facts.dimension && counted(facts.dimension, "dimension"), facts.bytes && `${decimal(facts.bytes / 1e6, 1)} MB`, facts.summaries?.summaries > 0 && counted(facts.summaries.summaries, "summary"), facts.up_to_date === false && t("out of date")].filter(Boolean);
    return h("li", null, h("span", { class: "mono" }, encoder), about.length ? h("span", { class: "small" }, ` ${about.join(", ")}`) : null);
  });
  const model = state.model ? h("p", null, parts("Answers are written by {model}", { model: h("span", { class: "mono" }, state.model) })) : h("p", { class: "small" }, t("No language model is configured: Ask shows passages only."));
  return [rows.length ? h("ul", { class: "plainlist" }, rows) : h("p", { class: "small" }, t("No vectors yet: run lemmata index.")), model];
}

const VARIANTS = { auto: "auto", default: t("default weights"), equal: t("equal weights"), dense: t("meaning alone"), lexical: t("words alone") };

// What auto weighs; where it was fitted, the measure of each variant as a bar.
function fusion(chosen, when) {
  if (!chosen) return h("p", { class: "small" }, t("Words only: there are no vectors yet."));
  const formula = h("p", { class: "formula" }, weights(chosen));
  if (!chosen.fitted) return [formula, h("p", { class: "small" }, t("The weights that come with lemmata. Fit your own: lemmata evaluate --queries FILE --tune."))];
  const { task, queries, measure, values } = chosen.fitted;
  const rows = Object.entries(values || {}).sort((one, other) => other[1] - one[1]);
  return [
    formula,
    h("p", { class: "small" }, t("Fitted to {queries} of {task}: {measure}", { queries: counted(queries, "query"), task: String(task).split("/").at(-1), measure }), when && ` · ${time(when)}`),
    h("table", { class: "bars" }, h("tbody", null, rows.map(([name, value]) => h("tr", null, h("th", { scope: "row" }, VARIANTS[name] || name), h("td", null, bar(value)), h("td", { class: "number" }, decimal(value, 3)))))),
  ];
}

// A table of values by name and measure, the best of each measure marked.
function values(rows, measures) {
  const best = measures.map((measure) => Math.max(...rows.map((row) => row.values[measure] ?? 0)));
  const cell = (value, most) => h("td", { class: "number" }, value === null || value === undefined ? "–" : h(value === most && rows.length > 1 ? "b" : "span", null, decimal(value, 3)));
  return h(
    "div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("Values") },
    h(
      "table", { class: "skips" },
      h("thead", null, h("tr", null, h("td", null), measures.map((measure) => h("th", { scope: "col", class: "number" }, t(measure))))),
      h("tbody", null, rows.map((row) => h("tr", null, h("th", { scope: "row" }, t(row.name), row.auto && h("span", { class: "small" }, weights({ formula: row.auto }))), measures.map((measure, place) => cell(row.values[measure], best[place]))))),
    ),
  );
}

function evaluation(report) {
  if (!report) return h("p", { class: "small" }, t("None is kept here. lemmata run measures search before and after training; lemmata evaluate prints a table."));
  const measures = [...new Set(report.rows.flatMap((row) => Object.keys(row.values)))];
  return [h("p", { class: "small" }, [counted(report.queries, "query"), report.task, time(report.when)].filter(Boolean).join(" · ")), values(report.rows, measures)];
}

function marks({ queries, asked, last_query: last, marks: counts, last_mark: marked }, level) {
  if (level === "off") return h("p", { class: "small" }, t("Nothing is kept: the log is off in [judgments] of lemmata.toml."));
  const rows = [
    [t("marked as answer"), counts.answer, marked],
    [t("marked as wrong"), counts.wrong],
    [t("opened"), counts.opened],
    [t("queries"), queries, last],
    [t("searches"), asked],
  ].filter(([, count]) => count);
  const drawn = rows.map(([name, count, when]) => h("tr", null, h("th", { scope: "row" }, name), h("td", { class: "number" }, number(count)), h("td", { class: "small" }, when ? t("last {time}", { time: time(when) }) : "")));
  return [rows.length ? h("table", { class: "skips" }, h("tbody", null, drawn)) : h("p", { class: "small" }, t("None yet: mark a hit with ✓ answer.")), h("p", { class: "small" }, t("Kept on this machine only: lemmata judgments lists, exports and clears them."))];
}

// What the last adaptation compared and what became of it, then those before, each in a line that opens.
function adaptations([last, ...earlier]) {
  if (!last) return h("p", { class: "small" }, t("None yet: lemmata adapt learns from marks and from the corpus itself, and adopts only what is better."));
  const before = earlier.map((run) => h("li", null, h("details", null, h("summary", null, `${time(run.when)}: ${outcome(run)}`), compared(run))));
  const undo = [last, ...earlier].find((run) => run.adopted);
  return [
    h("p", null, h("strong", null, outcome(last)), h("span", { class: "small" }, ` ${time(last.when)}`)),
    compared(last),
    undo && !undo.undone && h("p", { class: "small" }, t("lemmata adapt --undo takes it back.")),
    before.length > 0 && [h("h3", null, t("Before that")), h("ul", { class: "plainlist" }, before)],
  ];
}

function outcome({ adopted, undone }) {
  if (!adopted) return t("Nothing was better: search stays as it was.");
  return undone ? t("{name} was adopted, and undone {when}.", { name: t(adopted), when: time(undone) }) : t("{name} was adopted.", { name: t(adopted) });
}

function compared({ measure, queries, learned_from: learned, rows, notes }) {
  const held = Object.entries(queries).map(([task, count]) => `${counted(count, "query")} (${t(task)})`).join(", ");
  return [
    h("p", { class: "small" }, t("{measure} on {queries} that were held out; learned from {marks}.", { measure, queries: held, marks: counted(learned, "marked query") })),
    values(rows, Object.keys(queries)),
    notes.map((note) => h("p", { class: "small" }, sentence(note))),
  ];
}

function skips(state) {
  if (!state.skipped) return h("p", { class: "fine" }, t("Nothing: everything that was given was read."));
  const rows = state.skips.map((skip) => h("tr", null, h("td", null, fileName(skip)), h("td", null, said(skip.cause))));
  const rest = state.skipped - rows.length;
  return [h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("What was skipped") }, h("table", { class: "skips" }, h("thead", null, h("tr", null, h("th", null, t("File")), h("th", null, t("Why")))), h("tbody", null, rows))), rest > 0 ? h("p", { class: "small" }, t("and {number} more: lemmata info", { number: number(rest) })) : null];
}

// The name of a file first, its folder after it.
function fileName({ file, line }) {
  const [, folder, name] = /^(.*[/\\])?([^/\\]+)[/\\]?$/.exec(file) || [null, "", file];
  return [h("span", { class: "mono" }, name, line > 0 && h("span", { class: "soft" }, `:${line}`)), folder && h("span", { class: "small folder" }, folder)];
}
