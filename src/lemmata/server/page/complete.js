// Completion of what is typed into a box: concepts, titles, documents, authors and locations whose names begin like it.

import { get } from "./api.js";
import { address, h } from "./dom.js";
import { t } from "./language.js";
import { kindWord } from "./words.js";

const WAIT = 120; // milliseconds without a key
const LEAST = 2; // letters

// `choose({ what, id, name, kind })` is called with the one that was taken; the list belongs below the box.
export function completion(box, choose) {
  const list = h("ul", { class: "completions", id: "completions", role: "listbox", "aria-label": t("Names that begin like this"), hidden: true });
  Object.entries({ role: "combobox", "aria-autocomplete": "list", "aria-expanded": "false", "aria-controls": list.id }).forEach(([name, value]) => box.setAttribute(name, value));
  let names = [];
  let at = -1;
  let timer = 0;
  let asked = 0;

  function close() {
    clearTimeout(timer);
    asked += 1;
    list.hidden = true;
    mark(-1);
    box.setAttribute("aria-expanded", "false");
  }

  function mark(place) {
    at = place;
    [...list.children].forEach((item, number) => item.setAttribute("aria-selected", String(number === at)));
    if (at >= 0) box.setAttribute("aria-activedescendant", list.children[at].id);
    else box.removeAttribute("aria-activedescendant");
  }

  function take(name) {
    close();
    choose(name);
  }

  async function look() {
    const prefix = box.value.trim();
    const number = ++asked;
    if (prefix.length < LEAST) return close();
    const answer = await get(`/complete?k=7&prefix=${encodeURIComponent(prefix.slice(0, 200))}`).catch(() => ({ names: [] }));
    if (number !== asked || document.activeElement !== box) return;
    names = answer.names;
    list.replaceChildren(...names.map((name, place) => h("li", { role: "option", id: `completion-${place}`, "aria-selected": "false", onmousedown: (event) => (event.preventDefault(), take(name)) }, h("span", { class: "name" }, name.name), h("span", { class: "small" }, name.what === "title" ? kindWord(name.kind) : t(name.what)))));
    at = -1;
    list.hidden = !names.length;
    box.setAttribute("aria-expanded", String(!list.hidden));
  }

  box.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(look, WAIT);
  });
  box.addEventListener("blur", close);
  box.addEventListener("keydown", (event) => {
    if (list.hidden) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) mark(Math.max(-1, Math.min(names.length - 1, at + step)));
    else if (event.key === "Enter" && at >= 0) take(names[at]);
    else if (event.key === "Escape") close();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  box.form?.addEventListener("submit", close);
  return { list, close };
}

// Where a completed name leads.
export function leadsTo({ what, id, kind }) {
  return what === "author" ? `/?q=${encodeURIComponent(`author:"${id}"`)}` : address(id, kind);
}
