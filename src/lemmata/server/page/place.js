// A location of a plant: its logs and those of everything below it, as incidents; how many there were when.

import { get } from "./api.js";
import { chart, heading, name as period } from "./chart.js";
import { address, h, link, logWords, waiting } from "./dom.js";
import { counted, day, moment, number, parts, t } from "./language.js";
import { predictedLink } from "./predicted.js";
import { shortName } from "./words.js";

const PAGE = 30; // threads
const OPEN = 8; // logs of an incident that are shown at once

export async function show(main, { id, parameters }) {
  const controller = new AbortController();
  main.replaceChildren(waiting(t("Reading …")));
  const [since, until] = [parameters.get("since") || "", parameters.get("until") || ""];
  const page = (offset) => get(`/history/${encodeURIComponent(id)}?${new URLSearchParams({ offset, k: PAGE, since, until })}`, controller.signal);
  const history = await page(0);
  document.title = `${history.title || shortName(id)} – lemmata`;
  const here = (bar) => `${address(id)}?since=${bar.since}&until=${bar.until}`;
  const list = h("ol", { class: "incidents" }, history.threads.map((thread) => incident(thread, id)));
  const more = h("button", { class: "plain more", type: "button", hidden: history.next_offset === null }, t("More incidents"));
  more.addEventListener("click", async () => {
    more.disabled = true;
    const next = await page(history.next_offset);
    list.append(...next.threads.map((thread) => incident(thread, id)));
    history.next_offset = next.next_offset;
    more.hidden = next.next_offset === null;
    more.disabled = false;
  });
  const bar = history.times.bars.find((one) => one.since === since && one.until === until);
  const when = since || until ? h("p", { class: "small" }, t("With a log in {period}: {threads}.", { period: bar ? period(bar, history.times.unit) : t("{first} to {last}", { first: since || "…", last: until || "…" }), threads: counted(history.total, "thread") }), " ", h("a", { href: address(id) }, t("Show all"))) : null;
  const article = h(
    "article", { class: "passage document place" },
    history.above.length > 0 && h("p", { class: "from" }, history.above.map((place, number) => [number ? " › " : "", link(place.id, "location", place.title || shortName(place.id))])),
    h("h1", null, h("span", { class: "kind" }, t("Location")), history.title || shortName(id)),
    h("p", { class: "foot" }, h("span", { class: "mono" }, shortName(id)), h("span", null, t("{logs} here and below", { logs: counted(history.logs, "log") }))),
    h("p", { class: "copies" }, h("a", { class: "plain button", href: `/?loc=${encodeURIComponent(shortName(id))}` }, t("Search at this location"))),
    history.times.bars.length > 1 && h("section", null, h("h2", null, heading(history.times)), chart(history.times, here, since)),
    history.parts.length > 0 && h("section", null, h("h2", null, t("Parts")), h("ul", { class: "parts" }, history.parts.map(part))),
    (history.total > 0 || when) && h("section", null, h("h2", null, t("History, the newest first")), when, list, more),
    history.probable.length > 0 && h("section", null, h("h2", null, t("Probably also here")), h("details", null, h("summary", null, counted(history.probable.length, "log")), h("p", { class: "small" }, t("Logs that name another location or none. Confirm a link if it is right: it is kept with the graph, and can be undone.")), h("ol", { class: "incidents" }, history.probable.map((log) => h("li", null, logLine(log, id)))))),
  );
  main.replaceChildren(article);
  return () => controller.abort();
}

function part(place) {
  return h("li", null, link(place.id, "location", place.title || shortName(place.id)), " ", h("span", { class: "mono small" }, shortName(place.id)), h("span", { class: "count" }, number(place.passages)));
}

// Logs that follow each other are one incident; a log on its own is a line.
function incident({ logs }, id) {
  if (logs.length === 1) return h("li", null, logLine(logs[0], id));
  const [first, last] = [day(logs[0].date), day(logs.at(-1).date)];
  const rows = logs.map((log, place) => h("li", { hidden: logs.length > OPEN && place > 1 && place < logs.length - 3 }, logLine(log, id, place ? logs[place - 1].id : "")));
  const hidden = rows.filter((row) => row.hidden);
  const more = hidden.length > 0 && h("li", { class: "small" }, h("button", { type: "button", class: "plain small", onclick: () => (hidden.forEach((row) => (row.hidden = false)), more.remove()) }, t("{number} more in between", { number: number(hidden.length) })));
  if (more) rows.splice(2, 0, more);
  return h("li", { class: "incident" }, h("h3", null, t("Incident, {logs}", { logs: counted(logs.length, "log") }), h("span", { class: "small" }, first === last ? first : t("{first} to {last}", { first, last }))), h("ol", null, rows));
}

// `before` is the log above it in its incident; where it follows another one, that is told.
function logLine(log, id, before = "") {
  const elsewhere = log.location.filter((place) => `location:${place}` !== id);
  const others = before ? log.follows.filter((other) => other !== before) : [];
  return h(
    "div", { class: "logline" },
    h("p", { class: "head" }, h("a", { href: address(log.id) }, h("time", { datetime: log.date }, moment(log.date) || log.id)), elsewhere.map((place) => link(`location:${place}`, "location", h("span", { class: "mono" }, place))), others.length > 0 && h("span", { class: "small" }, parts("follows {logs}", { logs: others.map((other, place) => [place ? ", " : "", link(other, "log", h("span", { class: "mono" }, other))]) }))),
    h("p", { class: "words" }, logWords(log)),
    log.predicted.map((record) => predictedLink(record, log.id)),
  );
}
