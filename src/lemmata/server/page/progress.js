// What the server is still making of a folder, in the words of the page; loaded only while there is something to say.

import { number, said, t } from "./language.js";

// One line: what is ready, what is being made and how long that takes, what follows; else what went wrong.
export function progressLine({ state, steps, problems }) {
  if (state !== "working") return problems.map(said).join(" ");
  const names = (wanted) => steps.filter((step) => step.state === wanted).map(({ name }) => t(name)).join(", ");
  const now = steps.filter((step) => step.state === "now").map(present).join(", ");
  return [names("ready") && t("Ready: {steps}.", { steps: names("ready") }), now && t("Now: {steps}.", { steps: now }), names("next") && t("Then: {steps}.", { steps: names("next") })].filter(Boolean).join(" ");
}

function present({ name, what, done, total, rate }) {
  const doing = said(what.replace(/,.*$/, "").replace(/ \([^()]*\)$/, "")); // without what it was expected to take, and by which encoder
  const share = total ? ` ${t("{done} of {total}", { done: number(done), total: number(total) })}` : "";
  const left = total && rate && (total - done) / rate;
  const time = left > 90 ? ` (${t("about {minutes} min left", { minutes: number(Math.round(left / 60)) })})` : left > 10 ? ` (${t("about {seconds} s left", { seconds: number(10 * Math.round(left / 10)) })})` : "";
  return [t(name), doing && doing !== t(name) && `${doing}${share}${time}`].filter(Boolean).join(": ");
}
