// Bars over time: each is a link to what happened then.

import { h, number, svg } from "./dom.js";

const [HEIGHT, FOOT] = [130, 22];
const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");

// `at(bar)` is the address of a bar, `chosen` the since of one that is marked.
export function chart({ unit, bars }, at, chosen) {
  const width = Math.min(720, innerWidth - 60); // letters keep their size on a phone
  const most = Math.max(...bars.map((bar) => bar.logs));
  const wide = width / bars.length;
  const room = HEIGHT - FOOT - 14;
  const every = Math.ceil(64 / wide); // bars between two dates below, so that they have room
  const columns = bars.map((bar, place) => {
    const high = (bar.logs / most) * room;
    const said = `${name(bar, unit)}: ${number(bar.logs)} ${bar.logs === 1 ? "log" : "logs"}`;
    const column = [
      svg("title", null, said),
      svg("rect", { class: "ground", x: place * wide, y: 0, width: wide, height: HEIGHT - FOOT }),
      svg("rect", { class: "full", x: place * wide + Math.min(2, wide * 0.15), y: HEIGHT - FOOT - high, width: Math.max(1, wide - Math.min(4, wide * 0.3)), height: high, rx: Math.min(2, high) }),
      wide > 20 && bar.logs > 0 && svg("text", { class: "count", x: (place + 0.5) * wide, y: HEIGHT - FOOT - high - 4 }, bar.logs),
    ];
    return bar.logs ? svg("a", { href: at(bar), "aria-label": said, class: bar.since === chosen ? "here" : null, "aria-current": bar.since === chosen ? "true" : null }, column) : svg("g", null, column);
  });
  const dates = bars.map((bar, place) => place % every === 0 && svg("text", { class: "date", x: Math.min(Math.max((place + 0.5) * wide, 20), width - 20), y: HEIGHT - 6 }, label(bar, unit)));
  return h("div", { class: "chart" }, svg("svg", { class: "timebars", viewBox: `0 0 ${width} ${HEIGHT}`, role: "group", "aria-label": `Logs by ${unit}` }, columns, dates, svg("line", { x1: 0, x2: width, y1: HEIGHT - FOOT, y2: HEIGHT - FOOT })));
}

export function name(bar, unit) {
  if (unit === "week") return `Week from ${bar.since}`;
  if (unit === "month") return bar.since.slice(0, 7);
  return bar.since.slice(0, 4) === bar.until.slice(0, 4) ? bar.since.slice(0, 4) : `${bar.since.slice(0, 4)} – ${bar.until.slice(0, 4)}`;
}

function label({ since }, unit) {
  const [year, month, day] = since.split("-");
  if (unit === "year") return year;
  return unit === "month" ? `${MONTHS[month - 1]} ${year.slice(2)}` : `${Number(day)} ${MONTHS[month - 1]}`;
}
