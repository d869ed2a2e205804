// Ask: a question, an answer that is written while you read, and the passages that it cites.

import { forgetWorkspace, stream, workspace } from "./api.js";
import { address, announce, append, copyButton, dated, excerpt, fromServer, h, heading, problem } from "./dom.js";
import { counted, number, parts, t } from "./language.js";
import { family, kindWord } from "./words.js";

export async function show(main, { parameters, go }) {
  const question = parameters.get("q") || "";
  document.title = `${question || t("Ask")} – lemmata`;
  const box = h("input", { type: "search", id: "question", value: question, "aria-label": t("Your question"), placeholder: t("Ask a question about the corpus"), maxlength: 2000, autocomplete: "off" });
  const form = h("form", { class: "search", role: "search" }, h("div", { class: "box" }, box, h("button", { class: "strong" }, t("Ask|do it"))));
  const model = h("div", null);
  const stop = h("button", { type: "button", class: "plain stop", hidden: true }, t("Stop writing"));
  const answer = h("section", { class: "answer", "aria-label": t("Answer"), "aria-live": "polite" });
  const passages = h("section", { class: "cited", "aria-label": t("Passages") });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (box.value.trim()) go(`/view/ask?q=${encodeURIComponent(box.value.trim())}`);
  });
  main.replaceChildren(h("h1", null, t("Ask")), h("p", { class: "lead" }, t("An answer from passages of the corpus, each sentence with the passages it rests on.")), model, form, h("div", { class: "asked" }, stop, answer, passages));
  forgetWorkspace(); // a model may have been named since
  workspace().then((state) => model.replaceChildren(writer(state.model, !question)), () => {});
  if (!question) {
    box.focus();
    return null;
  }
  const controller = new AbortController();
  stop.addEventListener("click", () => controller.abort("stopped"));
  receive(question, answer, passages, stop, controller.signal);
  return () => controller.abort();
}

// Who writes the answers; without a language model, how to name one.
function writer(model, open) {
  if (model) return h("p", { class: "small" }, parts("Answers are written by {model}", { model: h("span", { class: "mono" }, model) }));
  const settings = '[llm]\nurl = "http://localhost:11434/v1"\nmodel = "qwen2.5:7b"';
  return h(
    "details", { class: "notice", open },
    h("summary", null, h("strong", null, t("No language model is configured."))),
    h("p", null, t("Ask shows the passages that answer best, for you to read. For written answers, any server with the API of OpenAI will do, such as Ollama, vLLM or llama.cpp. Name it in lemmata.toml of the workspace; no restart is needed:")),
    h("pre", null, h("code", null, settings)),
    copyButton(t("Copy"), settings),
  );
}

async function receive(question, answer, place, stop, signal) {
  const state = { text: "", sentences: [], passages: [], ended: false };
  const isOnly = workspace().then(({ documents }) => documents === 1, () => false);
  stop.hidden = false;
  answer.setAttribute("aria-busy", "true");
  const body = h("div", { class: "math text writing" });
  answer.replaceChildren(body);
  const events = {
    async passages(data) {
      state.passages = data.passages.map((passage, index) => ({ number: index + 1, ...passage }));
      const only = await isOnly;
      place.replaceChildren(state.passages.length ? h("h2", null, t("Passages")) : "", h("ol", { class: "hits" }, state.passages.map((passage) => row(passage, only))));
    },
    text(data) {
      state.text += data.text;
      write(body, state);
    },
    sentence(data) {
      state.sentences.push(data);
      write(body, state);
    },
    done(data) {
      state.ended = true;
      if (data.answer && !state.text) state.text = data.answer;
      write(body, state);
      answer.append(verdict(data));
      announce(t("the answer is complete"));
    },
    error(data) {
      state.ended = true;
      if (!state.text) body.remove();
      answer.append(failed(data, state.passages.length));
    },
  };
  try {
    await stream("/ask", { question, k: 8 }, (name, data) => !signal.aborted && events[name]?.(data), signal);
  } catch (error) {
    if (signal.reason === "stopped") {
      answer.append(h("p", { class: "small" }, t("Stopped: the rest was not written.")));
      announce(t("Stopped: the rest was not written."));
    } else if (!signal.aborted && !state.ended) answer.append(problem(error));
  } finally {
    stop.hidden = true;
    answer.removeAttribute("aria-busy");
    body.classList.remove("writing");
  }
}

function failed(data, passages) {
  if (data.code !== "no_model") return problem(data);
  return h("p", null, t("These {passages} answer it best; read them yourself.", { passages: counted(passages, "passage") }));
}

// The text so far: complete sentences as they were checked, then what is still being written.
function write(body, state) {
  const letters = [...state.text];
  const parts = [];
  let at = 0;
  for (const checked of [...state.sentences].sort((a, b) => a.begin - b.begin)) {
    if (checked.begin > at) parts.push(cited(letters.slice(at, checked.begin).join(""), state));
    const text = letters.slice(checked.begin, checked.end).join("");
    const flags = (checked.flags || []).filter((flag) => flag !== "incomplete");
    const inner = checked.html ? [fromServer("span", null, checked.html), " ", (checked.citations || []).map((citation) => mark(citation.number, state, citation.flag))] : cited(text, state);
    parts.push(flags.length ? [h("span", { class: "doubted" }, inner), h("small", { class: "flag" }, flags.map((flag) => FLAGS[flag] || flag).join("; "))] : h("span", null, inner));
    at = checked.end;
  }
  parts.push(cited(letters.slice(at).join(""), state));
  body.replaceChildren();
  append(body, parts);
}

const FLAGS = {
  uncited: t("names no passage"),
  missing: t("names a passage that does not exist"),
  unsupported: t("its passage does not support it"),
};

// [1], [2, 3] as links to the passages.
function cited(text, state) {
  const parts = [];
  let at = 0;
  for (const match of text.matchAll(/\[(\d+(?:\s*,\s*\d+)*)\]/g)) {
    parts.push(text.slice(at, match.index), match[1].split(",").map((number) => mark(Number(number), state)));
    at = match.index + match[0].length;
  }
  parts.push(text.slice(at));
  return parts;
}

function mark(number, state, flag) {
  const passage = state.passages.find((one) => one.number === number);
  if (!passage) return h("sup", { class: "doubted", title: FLAGS.missing }, `[${number}]`);
  return h("sup", null, h("a", { href: address(passage.id), class: flag ? "doubted" : null }, `[${number}]`));
}

function row(passage, only) {
  return h(
    "li", { class: `hit ${family(passage.kind)}`, id: `passage-${passage.number}` },
    h("h3", null, h("a", { href: address(passage.id) }, h("span", { class: "count" }, passage.number), h("span", { class: "kind" }, kindWord(passage.kind, passage.printed_number, passage.printed)), heading(passage))),
    h("p", { class: "from" }, from(passage, only).map((part, place) => [place ? " · " : "", part])),
    h("div", { class: "math excerpt" }, excerpt({ html: passage.html, excerpt: passage.text })),
  );
}

// Where it stands, without the document if there is no other one.
function from(passage, only) {
  const shown = (name) => (passage[`${name}_html`] ? fromServer("span", null, passage[`${name}_html`]) : passage[name]);
  return [passage.kind === "log" ? passage.where : !only && (shown("document_title") || passage.document), shown("section"), dated(passage)].filter(Boolean);
}

function verdict(data) {
  const parts = [data.model && t("by {model}", { model: data.model }), data.sentences && t("{number} of {sentences} supported by what they cite", { number: number(data.supported ?? 0), sentences: counted(data.sentences, "sentence") }), data.cached && t("from the cache"), data.truncated && t("cut off by the model")];
  return h("p", { class: "small" }, data.refused ? `${t("The passages do not answer it, says the model.")} ` : "", parts.filter(Boolean).join(" · "));
}
