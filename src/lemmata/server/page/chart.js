// Bars over time: each is a link to what happened then.

import { h, svg } from "./dom.js";
import { counted, day, language, t } from "./language.js";

const [HEIGHT, FOOT] = [130, 22];
const UNITS = { week: "Logs by week", month: "Logs by month", year: "Logs by year" };

export function heading({ unit }) {
  return t(UNITS[unit]);
}

// `at(bar)` is the address of a bar, `chosen` the since of one that is marked.
export function chart({ unit, bars }, at, chosen) {
  const width = Math.min(720, innerWidth - 60); // letters keep their size on a phone
  const most = Math.max(...bars.map((bar) => bar.logs));
  const wide = width / bars.length;
  const room = HEIGHT - FOOT - 14;
  const every = Math.ceil(64 / wide); // bars between two dates below, so that they have room
  const columns = bars.map((bar, place) => {
    const high = (bar.logs / most) * room;
    const said = `${name(bar, unit)}: ${counted(bar.logs, "log")}`;
    const column = [
      svg("title", null, said),
      svg("rect", { class: "ground", x: place * wide, y: 0, width: wide, height: HEIGHT - FOOT }),
      svg("rect", { class: "full", x: place * wide + Math.min(2, wide * 0.15), y: HEIGHT - FOOT - high, width: Math.max(1, wide - Math.min(4, wide * 0.3)), height: high, rx: Math.min(2, high) }),
      wide > 20 && bar.logs > 0 && svg("text", { class: "count", x: (place + 0.5) * wide, y: HEIGHT - FOOT - high - 4 }, bar.logs),
    ];
    return bar.logs ? svg("a", { href: at(bar), "aria-label": said, class: bar.since === chosen ? "here" : null, "aria-current": bar.since === chosen ? "true" : null }, column) : svg("g", null, column);
  });
  const dates = bars.map((bar, place) => place % every === 0 && svg("text", { class: "date", x: Math.min(Math.max((place + 0.5) * wide, 20), width - 20), y: HEIGHT - 6 }, label(bar, unit)));
  return h("div", { class: "chart" }, svg("svg", { class: "timebars", viewBox: `0 0 ${width} ${HEIGHT}`, role: "group", "aria-label": heading({ unit }) }, columns, dates, svg("line", { x1: 0, x2: width, y1: HEIGHT - FOOT, y2: HEIGHT - FOOT })));
}

export function name({ since, until }, unit) {
  if (unit === "week") return t("Week from {date}", { date: day(since) });
  if (unit === "month") return written(since, { month: "long", year: "numeric" });
  const [first, last] = [since.slice(0, 4), until.slice(0, 4)];
  return first === last ? first : `${first} – ${last}`;
}

function label({ since }, unit) {
  if (unit === "year") return since.slice(0, 4);
  return written(since, unit === "month" ? { month: "short", year: "2-digit" } : { day: "numeric", month: "short" });
}

function written(date, style) {
  return new Intl.DateTimeFormat(language, { ...style, timeZone: "UTC" }).format(new Date(date));
}
