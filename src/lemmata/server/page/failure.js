// What to do when something went wrong: ids that look like an unknown one, the way back, another try.

import { get } from "./api.js";
import { h, problem, row } from "./dom.js";
import { t } from "./language.js";
import { shortName } from "./words.js";

const WAITS = { 0: 3, 409: 15, 503: 3 }; // seconds after which a request that got this status is sent again

// The error and, where time may heal it, another try by `again`.
export function failure(error, again) {
  const shown = problem(error);
  let left = WAITS[error.status];
  if (left === undefined) return shown;
  const line = h("span", null);
  shown.append(h("p", { class: "again", "aria-live": "off" }, line, " ", h("button", { type: "button", class: "plain small", onclick: () => retry() }, t("Try now"))));
  const retry = () => {
    left = -1;
    again();
  };
  const tick = () => {
    if (left < 0 || (line.textContent && !shown.isConnected)) return; // somebody was faster, or has left
    line.textContent = t("Another try in {seconds} s.", { seconds: left });
    if (left-- > 0) setTimeout(tick, 1000);
    else again();
  };
  tick();
  return shown;
}

// In place of a view that cannot be shown.
export async function unshown(main, error, id, again) {
  if (error.status === 404) error.cure = ""; // is for programs: people get links
  const start = h("p", { class: "copies" }, h("a", { class: "plain button", href: "/" }, t("To the start")));
  main.replaceChildren(h("h1", { class: "unseen" }, t("Not found")), failure(error, again), start);
  if (error.status !== 404 || !id) return;
  const words = shortName(id).replace(/^\w+:/, "").replaceAll(/[-_#@/:.]+/g, " ").trim();
  if (words) start.append(h("a", { class: "plain button", href: `/?q=${encodeURIComponent(words)}` }, t("Search for “{words}”", { words })));
  const { near } = await get(`/near/${encodeURIComponent(id)}`).catch(() => ({ near: [] }));
  if (near.length && start.isConnected) start.before(h("section", { class: "near" }, h("h2", null, t("Ids like this one")), h("ul", { class: "neighbours" }, near.map((record) => row(record, h("span", { class: "mono" }, record.id))))));
}
