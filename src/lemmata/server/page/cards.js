// Hover cards: the statement behind every reference, for who points at it or reaches it by keyboard.

import { get } from "./api.js";
import { dated, fromServer, h, heading, title } from "./dom.js";
import { day, parts } from "./language.js";
import { family, kindWord } from "./words.js";

const BEFORE = 260; // milliseconds from pointing to the card
const AFTER = 180; // and from leaving to its end: time to move into it
const MOST = 200; // cards that are remembered
const REFERENCE = /^\/view\/(?:passage|concept|document)\/([^?#]+)$/;
const NOT = "header, .hovercard, .hit h3, .crumbs"; // what is shown there already is the statement, or only its place

const known = new Map(); // id: the answer, or a promise of it
const card = h("div", { class: "hovercard", id: "hovercard", role: "tooltip", hidden: true });
let anchor = null; // whose card is shown, or will be
let timer = 0;
let byKeyboard = false; // a focus that a click has set shows no card
let pressed = null; // where the mouse was pressed: what the page then puts under it was not pointed at

export function start() {
  document.body.append(card);
  document.addEventListener("keydown", () => (byKeyboard = true), true);
  document.addEventListener("pointerover", (event) => {
    if (event.pointerType !== "mouse" || (event.clientX === pressed?.clientX && event.clientY === pressed.clientY)) return;
    const found = reference(event.target);
    if (found) later(found, BEFORE);
    else if (!card.contains(event.target)) end(AFTER);
    else clearTimeout(timer);
  });
  document.addEventListener("focusin", (event) => {
    const found = reference(event.target);
    if (found && byKeyboard) later(found, BEFORE);
    else end(0);
  });
  document.addEventListener(
    "pointerdown",
    (event) => {
      byKeyboard = false;
      pressed = event;
      if (!card.contains(event.target)) end(0);
    },
    true,
  );
  addEventListener("scroll", () => end(0), { passive: true });
  document.addEventListener(
    "keydown",
    (event) => {
      if (event.key !== "Escape" || card.hidden) return;
      event.stopImmediatePropagation(); // the first press closes the card only
      end(0);
    },
    true,
  );
}

function reference(target) {
  const found = target.closest?.("a[href]");
  return found && REFERENCE.test(found.getAttribute("href")) && !found.closest(NOT) ? found : null;
}

function later(found, wait) {
  if (found === anchor && !card.hidden) return clearTimeout(timer);
  clearTimeout(timer);
  anchor = found;
  timer = setTimeout(() => show(found), card.hidden ? wait : wait / 2);
}

export function end(wait = 0) {
  clearTimeout(timer);
  timer = setTimeout(() => {
    anchor?.removeAttribute("aria-describedby");
    anchor = null;
    card.hidden = true;
  }, wait);
  if (!wait) card.hidden = true;
}

async function show(found) {
  const id = decodeURIComponent(REFERENCE.exec(found.getAttribute("href"))[1]);
  if (!known.has(id)) {
    if (known.size > MOST) known.delete(known.keys().next().value);
    known.set(id, get(`/cards/${encodeURIComponent(id)}`).catch(() => null));
  }
  const record = await known.get(id);
  if (!record?.html && !record?.document) return; // a name without a definition says nothing new
  if (anchor !== found || !found.isConnected) return;
  card.className = `hovercard ${family(record.kind)}`;
  card.replaceChildren(...content(record));
  place(found.getBoundingClientRect());
  found.setAttribute("aria-describedby", card.id);
}

function content(record) {
  const { document: paper, defined_in: defining } = record;
  const isDocument = paper?.id === record.id;
  const from = isDocument ? [paper.authors.slice(0, 4).join(", "), day(paper.date)].filter(Boolean).join(" · ") : (record.kind === "log" && dated(record)) || (paper && title(paper, paper.id));
  return [
    h("p", { class: "head" }, h("span", { class: "kind" }, kindWord(isDocument ? paper.form : record.kind, record.number, record.printed)), heading(record)),
    record.html && fromServer("div", { class: "math statement" }, record.html),
    (from || defining) && h("p", { class: "small" }, defining ? parts("{statement} in {document}", { statement: kindWord(defining.kind, defining.number, defining.printed), document: from }) : from),
  ].filter(Boolean);
}

// Below the reference, or above where there is no room; never outside of the window.
function place(rect) {
  card.hidden = false;
  const { offsetWidth: width, offsetHeight: height } = card;
  const below = rect.bottom + 8 + height < innerHeight || rect.top < height + 8;
  card.style.left = `${Math.max(8, Math.min(rect.left, innerWidth - width - 8))}px`;
  card.style.top = `${below ? rect.bottom + 8 : rect.top - height - 8}px`;
}
