// The table of contents of a document as a tree: branches open and close, and the heading that is being read is marked.

import { fromServer, h } from "./dom.js";
import { t } from "./language.js";

// `entries` as /outline gives them; `go(place)` is called with the place of the first passage below a heading.
export function tree(entries, addressOf, go) {
  const rows = [];
  const root = { level: -1, list: h("ul", { class: "contents" }) };
  let above = [root];
  entries.forEach((entry, number) => {
    while (above.at(-1).level >= entry.level) above.pop();
    const parent = above.at(-1);
    const link = h("a", { href: addressOf(entry), title: entry.title }, entry.number && h("span", { class: "number" }, entry.number), entry.title_html ? fromServer("span", null, entry.title_html) : entry.title);
    link.addEventListener("click", (event) => {
      if (event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
      event.preventDefault();
      go(entry.place);
    });
    const node = { level: entry.level, list: h("ul", { hidden: true }), parent, place: entry.place, number };
    node.toggle = h("button", { type: "button", class: "twist", "aria-expanded": "false", "aria-label": t("Below {heading}", { heading: entry.title || entry.number }) });
    node.toggle.addEventListener("click", () => open(node, node.list.hidden));
    node.item = h("li", null, node.toggle, link, node.list);
    node.link = link;
    parent.list.append(node.item);
    above = [...above, node];
    rows.push(node);
  });
  for (const node of rows) if (!node.list.childElementCount) (node.item.classList.add("leaf"), node.toggle.remove(), node.list.remove());
  if (root.list.childElementCount === 1 && rows.length > 1) open(rows[0], true);

  function open(node, is) {
    if (!node.toggle) return;
    node.list.hidden = !is;
    node.toggle.setAttribute("aria-expanded", String(is));
  }

  // Marks the heading above a passage, and opens the branches to it.
  function mark(place) {
    const current = rows.findLast((node) => node.place <= place);
    for (const node of rows) {
      if (node === current) node.link.setAttribute("aria-current", "location");
      else node.link.removeAttribute("aria-current");
    }
    for (let node = current; node && node !== root; node = node.parent) open(node, true);
    return current;
  }

  return { element: root.list, mark };
}
