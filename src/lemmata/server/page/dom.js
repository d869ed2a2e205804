// Elements from text. Nothing becomes markup, except in `fromServer`, whose HTML the server made and escaped.

import { day, moment, said, t } from "./language.js";
import { family, kindWord, shortName } from "./words.js";

export function h(name, properties, ...children) {
  const element = document.createElement(name);
  fill(element, properties, children);
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

export function svg(name, properties, ...children) {
  const element = document.createElementNS(SVG, name);
  fill(element, properties, children);
  return element;
}

function fill(element, properties, children) {
  for (const [key, value] of Object.entries(properties || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "dataset") Object.assign(element.dataset, value);
    else if (value === true) element.setAttribute(key, "");
    else element.setAttribute(key, value);
  }
  append(element, children);
}

export function append(element, children) {
  for (const child of children.flat(3)) {
    if (child === null || child === undefined || child === false || child === "") continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

// `html` comes from the fields html, title_html and proof_html of the API alone: see server/mathml.py.
export function fromServer(name, properties, html) {
  const element = h(name, properties);
  element.innerHTML = html;
  return element;
}

export function title(record, fallback) {
  if (record.title_html) return fromServer("span", null, record.title_html);
  return document.createTextNode(record.title || fallback || "");
}

// The title, or the first words; of a log without a title the time.
export function heading(record) {
  if (isTimed(record)) return moment(record.date);
  return record.name_html ? fromServer("span", record.title ? null : { class: "unnamed" }, record.name_html) : shortName(record.id);
}

function isTimed({ kind, date, title: name }) {
  return kind === "log" && date && !name;
}

// The date, where it is not the heading.
export function dated(record) {
  return record.date && !isTimed(record) && h("time", { datetime: record.date }, record.kind === "log" ? moment(record.date) : day(record.date));
}

// One row of a list: a link by kind, number and name, what is said about it, and its first words. What has neither
// name nor number is called by its first words. Where it stands is told if that is not `within`.
export function row(record, note, where, within) {
  const named = record.kind === "log" ? moment(record.date) || record.name : record.title && title(record);
  const words = h("div", { class: "gist" }, record.kind === "log" ? logWords(record) : excerpt(record));
  const kind = h("span", { class: "kind" }, kindWord(record.kind, record.number, record.printed));
  const stands = record.where && record.where !== within && h("span", { class: "small where" }, record.where);
  const about = [note && h("span", { class: "relation" }, note), record.kind === "log" && stands];
  const link = (...inside) => h("a", { href: address(record.id, record.kind), class: named || record.number ? null : "wordy" }, kind, inside);
  const inside = named || record.number ? [link(named), about, words] : link(about, words);
  return h("li", { class: family(record.kind) }, h("div", null, inside, record.kind !== "log" && stands), where && h("span", { class: "small" }, where));
}

export function excerpt(record) {
  if (record.html) return fromServer("span", { class: "math" }, record.html);
  return document.createTextNode(record.excerpt || "");
}

// The title and the first words of a log.
export function logWords(log) {
  return [log.title && [h("strong", null, title(log)), " "], excerpt(log)];
}

export function announce(text) {
  document.getElementById("status").textContent = text;
}

const DOCUMENTS = new Set(["paper", "text", "pdf", "table", "location", "document"]);

// The view of a passage, document, location or concept.
export function address(id, kind) {
  const view = id.startsWith("concept:") ? "concept" : id.startsWith("location:") || DOCUMENTS.has(kind) ? "document" : "passage";
  return `/view/${view}/${encodeURIComponent(id)}`;
}

export function link(id, kind, ...children) {
  return h("a", { href: address(id, kind) }, children.length ? children : id);
}

export function copyButton(label, text) {
  const button = h("button", { type: "button", class: "plain" }, label);
  button.addEventListener("click", async () => {
    let done = t("Copied");
    try {
      await navigator.clipboard.writeText(typeof text === "function" ? text() : text);
    } catch {
      done = t("Not allowed by the browser");
    }
    button.textContent = done;
    announce(done);
    setTimeout(() => (button.textContent = label), 1400);
  });
  return button;
}

export function notice(heading, text, cure) {
  return h("div", { class: "notice", role: "alert" }, h("strong", null, heading), text && h("p", null, text), cure && h("p", { class: "cure" }, cure));
}

const FRAMES = { 404: t("This does not exist here."), 409: t("The workspace lacks something for this."), 503: t("The server is busy or not ready yet.") };

// An error in the words of the server, below those of the page.
export function problem(error) {
  const message = sentence(error.message || String(error));
  const cure = error.cure ? sentence(error.cure) : "";
  return FRAMES[error.status] ? notice(FRAMES[error.status], message, cure) : notice(message, "", cure);
}

// A message of the server as a sentence.
export function sentence(message) {
  const text = said(message);
  const start = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?…]$/.test(start) ? start : `${start}.`;
}

export function waiting(text) {
  return h("p", { class: "waiting" }, text);
}
