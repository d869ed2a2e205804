// Saved and recent searches: their addresses, in the storage of this browser alone; no request sends them.

import { announce, h } from "./dom.js";
import { t } from "./language.js";

const MOST = { saved: 50, recent: 8 };

function read(list) {
  try {
    const stored = JSON.parse(localStorage.getItem(list) || "[]");
    return stored.filter((address) => typeof address === "string" && address.startsWith("/?"));
  } catch {
    return []; // not ours, or not allowed
  }
}

function write(list, addresses) {
  try {
    localStorage.setItem(list, JSON.stringify(addresses.slice(0, MOST[list])));
  } catch {} // full, or not allowed
}

const query = (address) => new URLSearchParams(address.slice(1)).get("q") || "";

// What is typed on replaces its beginning.
export function note(address) {
  if (!query(address).trim()) return;
  const others = read("recent").filter((other) => other !== address);
  if (others.length && query(address).startsWith(query(others[0]))) others.shift();
  write("recent", [address, ...others]);
}

// A button that keeps a search, and forgets it again.
export function keeping(address) {
  const isKept = () => read("saved").includes(address);
  const button = h("button", { type: "button", class: "plain small keep" });
  const draw = () => {
    button.setAttribute("aria-pressed", String(isKept()));
    button.textContent = t(isKept() ? "★ Saved" : "☆ Save");
  };
  button.addEventListener("click", () => {
    const others = read("saved").filter((other) => other !== address);
    write("saved", isKept() ? others : [address, ...others]);
    draw();
    announce(t(isKept() ? "saved in this browser" : "no longer saved"));
  });
  draw();
  return button;
}

// Both lists for the start page; each can be emptied.
export function remembered() {
  return [["saved", t("Saved searches")], ["recent", t("Recent searches")]].map(([list, name]) => {
    const addresses = read(list);
    if (!addresses.length) return null;
    const clear = h("button", { type: "button", class: "plain small", title: t("They are kept in this browser only") }, t("Clear"));
    const section = h("section", { class: "remembered", dataset: { list } }, h("h2", null, name, clear), h("ul", { class: "chips queries" }, addresses.map((address) => h("li", null, h("a", { href: address }, query(address), filters(address))))));
    clear.addEventListener("click", () => (write(list, []), section.remove(), announce(t("cleared"))));
    return section;
  });
}

// What limits a search, beside its words.
function filters(address) {
  const values = [...new URLSearchParams(address.slice(1))].filter(([key]) => !["q", "paths", "not", "among"].includes(key)).map(([, value]) => value);
  return values.length > 0 && h("span", { class: "count" }, values.join(", "));
}
