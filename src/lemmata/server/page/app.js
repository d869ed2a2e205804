// The shell: which view an address shows, the history, the keyboard, the theme, and copying formulas as LaTeX.

import { forgetWorkspace, get, workspace } from "./api.js";
import { announce, h } from "./dom.js";
import { unshown } from "./failure.js"; // at once: later there may be no server to ask for it
import { t, translatePage } from "./language.js";
import * as search from "./search.js";

const VIEWS = {
  search: async () => search,
  passage: () => styled(import("./passage.js")),
  document: () => styled(import("./document.js")),
  concept: () => styled(import("./concept.js")),
  bridge: () => styled(import("./bridge.js")),
  map: () => styled(import("./map.js")),
  ask: () => styled(import("./ask.js")),
  health: () => styled(import("./health.js")),
};

let styles = null;

// A view with the styles that the first one does not need, loaded once.
async function styled(module) {
  styles ??= new Promise((resolve, reject) => {
    const sheet = h("link", { rel: "stylesheet", href: "/page/views.css", onload: resolve, onerror: () => reject(gone()) });
    document.head.append(sheet);
  });
  await styles.catch((error) => {
    styles = null;
    throw error;
  });
  return module.catch(() => Promise.reject(gone()));
}

function gone() {
  return Object.assign(new Error(t("the server does not answer")), { status: 0 });
}

const cards = import("./cards.js"); // not before the first view
const main = document.getElementById("main");
let leave = null; // what the present view does when it is left
let shown = 0; // number of the present view, so that a slow one cannot overtake it
let walked = 0; // steps inside this page

function parse(address) {
  const [, first, view, ...rest] = address.pathname.split("/");
  if (first !== "view") return { view: first ? address.pathname : "search", id: "" };
  return { view, id: decodeURIComponent(rest.join("/")) };
}

export async function show({ focus = true } = {}) {
  const number = ++shown;
  const { view, id } = parse(location);
  leave?.();
  leave = null;
  cards.then(({ end }) => end(), () => {});
  for (const anchor of document.querySelectorAll("header [data-view]")) {
    if (anchor.dataset.view === view) anchor.setAttribute("aria-current", "page");
    else anchor.removeAttribute("aria-current");
  }
  document.body.dataset.view = view;
  try {
    if (!Object.hasOwn(VIEWS, view)) throw Object.assign(new Error(t("there is no view '{view}'", { view })), { cure: t("take one of those at the top") });
    const module = await VIEWS[view]();
    if (number !== shown) return;
    leave = (await module.show(main, { id, parameters: new URLSearchParams(location.search), go })) || null;
  } catch (error) {
    if (number !== shown || error.name === "AbortError") return;
    unshown(main, error, id, () => number === shown && show({ focus: false }));
  }
  if (focus && view !== "search") main.focus({ preventScroll: true });
}

export function go(address, { replace = false, quiet = false } = {}) {
  const next = new URL(address, location.href);
  if (replace) history.replaceState(history.state, "", next);
  else {
    history.replaceState({ ...history.state, scroll: scrollY }, "");
    history.pushState({}, "", next);
    walked += 1;
  }
  if (quiet) return;
  scrollTo(0, 0);
  show();
}

addEventListener("popstate", async () => {
  walked = Math.max(0, walked - 1);
  const wanted = history.state?.scroll || 0;
  await show({ focus: false });
  scrollTo(0, wanted);
});

document.addEventListener("click", (event) => {
  const anchor = event.target.closest?.("a[href]");
  if (!anchor || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const target = new URL(anchor.getAttribute("href"), location.href);
  if (target.origin !== location.origin || !(target.pathname === "/" || target.pathname.startsWith("/view/")) || anchor.hasAttribute("download")) return;
  if (anchor.getAttribute("href").startsWith("#")) return;
  event.preventDefault();
  go(target);
});

// ---------------------------------------------------------------- the keyboard

const help = document.getElementById("shortcuts");
let awaiting = 0; // when a `g` was pressed

function typing(target) {
  return target.matches?.("input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable]");
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.key === "Escape") {
    if (typing(document.activeElement)) document.activeElement.blur();
    else if (walked) history.back();
    else if (location.pathname !== "/") go("/");
    return;
  }
  if (typing(event.target)) return;
  if (awaiting && Date.now() - awaiting < 1200) {
    awaiting = 0;
    const address = { s: "/", b: "/view/bridge", m: "/view/map", a: "/view/ask", h: "/view/health" }[event.key];
    if (address) {
      event.preventDefault();
      go(address);
      return;
    }
  }
  if (event.key === "/") {
    event.preventDefault();
    const box = main.querySelector("input[type=search]");
    if (box) {
      box.focus();
      box.select();
    } else go("/");
  } else if (event.key === "?") help.showModal();
  else if (event.key === "g") awaiting = Date.now();
});

document.getElementById("help").addEventListener("click", () => help.showModal());
help.addEventListener("click", (event) => event.target === help && help.close());

// ---------------------------------------------------------------- the theme

document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("theme", root.dataset.theme);
  announce(t(dark ? "light colours" : "dark colours"));
  dispatchEvent(new Event("themechange"));
});

// ---------------------------------------------------------------- formulas are copied as LaTeX

document.addEventListener("copy", (event) => {
  const selection = getSelection();
  if (!selection.rangeCount || selection.isCollapsed || typing(event.target)) return;
  const range = selection.getRangeAt(0).cloneRange();
  const formulaAt = (node) => (node.nodeType === 1 ? node : node.parentElement)?.closest("[data-latex]");
  const [first, last] = [formulaAt(range.startContainer), formulaAt(range.endContainer)];
  if (first) range.setStartBefore(first); // half a formula is no formula
  if (last) range.setEndAfter(last);
  const copied = range.cloneContents();
  const formulas = copied.querySelectorAll("[data-latex]");
  if (!formulas.length) return;
  for (const formula of formulas) formula.replaceWith(`$${formula.dataset.latex}$`);
  for (const block of copied.querySelectorAll("p, li, h1, h2, h3, br")) block.after("\n");
  event.clipboardData.setData("text/plain", copied.textContent.trim());
  event.preventDefault();
});

// ---------------------------------------------------------------- what the server is still making

const progress = document.getElementById("progress");
let generation = null; // of the state that the page shows; 0 while there is none

async function followProgress() {
  generation ??= await workspace().then((known) => known.generation, () => 0); // what is shown may be of a state before the present one
  const state = await get("/v1/progress").catch(() => null);
  if (state) {
    const line = state.line || state.problems.length ? (await import("./progress.js")).progressLine(state) : "";
    progress.textContent = line;
    progress.hidden = !line;
    if (state.generation !== generation) {
      forgetWorkspace();
      const isStart = location.pathname === "/" && !location.search;
      if (generation === 0 || isStart) show({ focus: false }); // hits that are being read stay as they are
    }
    generation = state.generation;
    if (generation) name();
  }
  if (!state || state.served) setTimeout(followProgress, state?.state === "working" ? 1000 : 5000);
}

// ----------------------------------------------------------------

function name() {
  workspace().then(
    (state) => (document.getElementById("workspace").textContent = state.name),
    () => {},
  );
}

addEventListener("beforeprint", () => Object.assign(main.dataset, { title: document.title.replace(/ – lemmata$/, ""), address: location.href })); // for the printed page
history.scrollRestoration = "manual";
translatePage();
cards.then(({ start }) => start(), () => {});
followProgress();
show({ focus: false });
