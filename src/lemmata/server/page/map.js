// The map: every passage a point on a canvas; names of regions, colours, hover, click, hits of a search, and a lasso.

import { get } from "./api.js";
import { address, announce, excerpt, h, heading, problem, row, waiting } from "./dom.js";
import { counted, number, t } from "./language.js";
import { findLit, forget } from "./mapfound.js";
import { regionNames } from "./regions.js";
import { family, kindWord } from "./words.js";

const COLOURS = {
  light: ["#1f6f8b", "#c2571a", "#4d7c0f", "#8b3d88", "#a88400", "#2753b8", "#b3304a", "#0f766e", "#6b5b4b", "#7a55c7", "#d9480f", "#087f5b", "#a61e4d", "#3b5bdb"],
  dark: ["#6cc3dd", "#f09a5f", "#a3d15c", "#d88fd4", "#e5c34f", "#8fb0ff", "#f2869b", "#5fd0c0", "#c8b49f", "#b9a2f5", "#ffc078", "#63e6be", "#faa2c1", "#91a7ff"],
};
const RAMP = { light: ["#452f92", "#1f7a8c", "#6d9a1f", "#d98e04"], dark: ["#8d7be0", "#4fb3c4", "#a9d14b", "#ffd479"] }; // from old to new
const MOST_COLOURS = 24;
const OTHER = { light: "#b9b5ab", dark: "#565b61" };
const BY = { document: t("Document"), chapter: t("Chapter"), category: t("Category"), kind: t("Kind"), date: t("Date") };
const LIT = 10; // hits that show their rank
const REACH = 14; // pixels from a point that still mean it
const FADED = 255; // the colour of points that are not chosen
const MOST_DISCS = 4000; // more points are drawn without smooth edges
const CELL = 64; // of the grid that finds the nearest point, in 1/65536 of the map: 2^16 / 2^10

export async function show(main, { parameters, go }) {
  document.title = `${t("Map")} – lemmata`;
  main.replaceChildren(h("h1", { class: "unseen" }, t("Map")), waiting(t("Drawing the map …")));
  const answer = await get("/map");
  const points = decode(answer);
  points.usual = points.colouring;
  if (points.by[parameters.get("by")]?.names.length > 1) points.colouring = parameters.get("by");
  return draw(main, points, go, parameters);
}

function decode(answer) {
  const array = (text) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    return new Uint16Array(bytes.buffer, 0, bytes.length >> 1);
  };
  const by = {};
  for (const name of Object.keys(BY)) {
    const names = answer.names[name];
    const titles = new Map(names.map((one, code) => [one, answer.titles?.[name]?.[code] || ""]));
    by[name] = { codes: array(answer[name]), names, titles };
  }
  if (answer.titles.category.some(Boolean)) by.category.label = t("Section"); // of a plant
  const colouring = ["category", "document", "chapter", "kind"].find((name) => by[name].names.filter(Boolean).length > 1) || "kind";
  const part = by.kind.names.indexOf("part"); // of a long passage
  const passages = answer.points - by.kind.codes.filter((code) => code === part).length;
  return { number: answer.points, passages, x: array(answer.x), y: array(answer.y), by, colouring, regions: answer.regions };
}

// A colour between those of a ramp, from 0 to 1.
function between(ramp, share) {
  const place = Math.min(ramp.length - 2, Math.floor(share * (ramp.length - 1)));
  const rest = share * (ramp.length - 1) - place;
  const part = (at) => Math.round(parseInt(ramp[place].slice(at, at + 2), 16) * (1 - rest) + parseInt(ramp[place + 1].slice(at, at + 2), 16) * rest);
  return `#${[1, 3, 5].map((at) => part(at).toString(16).padStart(2, "0")).join("")}`;
}

// A colour #rrggbb, mixed with its ground, as one number of an image in memory.
function inMemory(colour, share, ground = colour) {
  const part = (at) => Math.round(parseInt(colour.slice(at, at + 2), 16) * share + parseInt(ground.slice(at, at + 2), 16) * (1 - share));
  return ((255 << 24) | (part(5) << 16) | (part(3) << 8) | part(1)) >>> 0;
}

function grid(points) {
  const cells = new Map();
  for (let row = 0; row < points.number; row++) {
    const key = (points.x[row] >> 10) * CELL + (points.y[row] >> 10);
    const cell = cells.get(key);
    if (cell) cell.push(row);
    else cells.set(key, [row]);
  }
  return cells;
}

// The middle of the points and how far they spread.
function extent({ x, y }) {
  const range = (values) => values.reduce(([least, most], value) => [Math.min(least, value), Math.max(most, value)], [65535, 0]);
  const [[left, right], [top, bottom]] = [range(x), range(y)];
  return { x: (left + right) / 2, y: (top + bottom) / 2, width: Math.max(1000, right - left), height: Math.max(1000, bottom - top) };
}

function draw(main, points, go, parameters) {
  const cells = grid(points);
  const canvas = h("canvas", { tabindex: "0", role: "img", "aria-label": t("Map of {number} passages; near points have similar texts. Arrows move, + and - zoom, n names the next hit, Enter opens.", { number: number(points.passages) }) });
  const context = canvas.getContext("2d", { alpha: false });
  const tip = h("div", { class: "tip", hidden: true });
  const regions = regionNames(points.regions);
  const chosenPanel = h("aside", { class: "chosen", "aria-label": t("Chosen passages"), hidden: true });
  const legendTitle = h("summary");
  const legend = h("ul");
  const folding = h("details", { class: "legend", open: matchMedia("(min-width: 42rem)").matches }, legendTitle, legend);
  const colour = h("select", { "aria-label": t("Colour by") }, Object.entries(BY).filter(([name]) => points.by[name].names.length > 1).map(([name, label]) => h("option", { value: name, selected: name === points.colouring }, points.by[name].label || label)));
  const lassoButton = h("button", { type: "button", class: "plain", "aria-pressed": "false", title: t("Draw around points to choose them (or hold Shift and drag)") }, t("Lasso"));
  const button = (sign, name, act) => h("button", { type: "button", class: "plain", "aria-label": name, title: name, onclick: act }, sign);
  const zooming = h("div", { class: "zooming" }, button("+", t("Zoom in"), () => zoomAt(1.5, width / 2, height / 2)), button("−", t("Zoom out"), () => zoomAt(1 / 1.5, width / 2, height / 2)), button(t("Fit"), t("Fit: show all"), () => fit()));
  const box = h("input", { type: "search", "aria-label": t("Find on the map"), placeholder: t("Find on the map"), maxlength: 2000 });
  const finding = h("form", { role: "search", onsubmit: (event) => (event.preventDefault(), light(new URLSearchParams({ q: box.value }))) }, box);
  const litChip = h("span", { class: "lit", hidden: true });
  const bar = h("div", { class: "mapbar" }, finding, colour.options.length > 1 && h("label", null, `${t("Colour by")} `, colour), lassoButton, litChip, h("span", { class: "small" }, t("{passages}; near points have similar texts", { passages: counted(points.passages, points.by.kind.names.join() === "log" ? "log" : "passage") })));
  const stage = h("div", { class: "stage" }, canvas, regions.list, tip, folding, zooming);
  main.replaceChildren(h("h1", { class: "unseen" }, t("Map")), bar, h("div", { class: "maparea" }, stage, chosenPanel));

  let width = 0;
  let height = 0;
  let stretch = 1; // of the map from left to right, to fill the window: distances on it are rough anyway
  let view = null; // the centre of the window on the map and its scale, in pixels per unit
  let lasso = null; // corners, in pixels
  let lassoing = false;
  let chosen = null; // rows
  let lit = null; // the search or path that is shown: rows, ways
  let only = -1; // code of the legend that is lit
  let hovered = -1;
  let palette = [];
  let inks = {}; // colours of the theme
  let queued = false;
  let image = null;
  const shade = new Uint8Array(points.number); // the colour of each point, or FADED
  const order = new Uint32Array(points.number); // rows, those that are drawn last on top
  const shown = new Uint32Array(MOST_DISCS); // rows in the window, where there are not too many

  const theme = () => {
    const set = document.documentElement.dataset.theme;
    return set || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  };
  const edges = extent(points);
  const covered = () => (folding.open && width > 800 ? folding.offsetWidth + 10 : 0); // by the legend, on the right
  const whole = () => Math.min((width - covered() - 60) / stretch / edges.width, (height - 60) / edges.height); // the scale that shows everything
  const fit = () => {
    stretch = Math.min(1.8, Math.max(0.6, ((width - covered()) / height) * (edges.height / edges.width)));
    const scale = whole();
    view = { x: edges.x + covered() / 2 / scale / stretch, y: edges.y, scale, fitted: true };
    redraw();
  };
  const pixel = ({ x, y }) => [(x - view.x) * view.scale * stretch + width / 2, (y - view.y) * view.scale + height / 2];
  const px = (row) => (points.x[row] - view.x) * view.scale * stretch + width / 2;
  const py = (row) => (points.y[row] - view.y) * view.scale + height / 2;

  function redraw() {
    if (queued) return;
    queued = true;
    requestAnimationFrame(() => {
      queued = false;
      paint();
    });
  }

  function paint() {
    context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    const zoom = view.scale / whole();
    canvas.dataset.zoom = zoom.toFixed(2);
    const size = Math.min(9, Math.max(1.6, (points.number > 5000 ? 2 : points.number > 1500 ? 3.4 : 5.4) * Math.pow(zoom, 0.42)));
    let visible = 0;
    for (let place = 0; place < points.number && visible <= MOST_DISCS; place++) {
      const row = order[place];
      const x = px(row);
      const y = py(row);
      if (x > -9 && y > -9 && x < width + 9 && y < height + 9) shown[visible++] = row;
    }
    if (visible > MOST_DISCS) paintPixels(size);
    else paintDiscs(visible, size);
    const obstacles = lit ? paintLit(size) : [];
    if (hovered >= 0) ring(hovered, size / 2 + 4, inks.ink);
    if (lasso?.length > 1) paintLasso();
    regions.draw(pixel, view.scale, width, height, [...obstacles, ...[folding, zooming].map(covers)]);
  }

  // What lies on the map, so that no name stands below it.
  function covers({ offsetLeft: x, offsetTop: y, offsetWidth: across, offsetHeight: down }) {
    return [x, y, x + across, y + down];
  }

  function ring(row, radius, colour) {
    context.strokeStyle = colour;
    context.lineWidth = 2;
    context.beginPath();
    context.arc(px(row), py(row), radius, 0, 6.2832);
    context.stroke();
  }

  function paintLasso() {
    context.strokeStyle = context.fillStyle = inks.accent;
    context.setLineDash([5, 4]);
    context.lineWidth = 1.5;
    context.beginPath();
    lasso.forEach(([x, y], place) => (place ? context.lineTo(x, y) : context.moveTo(x, y)));
    context.closePath();
    context.stroke();
    context.setLineDash([]);
    context.globalAlpha = 0.08;
    context.fill();
    context.globalAlpha = 1;
  }

  // The hits of a search, the first with their rank, and the way to the one that is pointed at; or a path with its names.
  // Returns the boxes of what must stay readable.
  function paintLit(size) {
    const way = lit.ways.get(hovered) || lit.ways.get(-1) || [];
    context.strokeStyle = inks.accent;
    context.lineWidth = 2.5;
    context.lineJoin = "round";
    context.beginPath();
    for (const place of way) context.lineTo(...pixel(place));
    context.stroke();
    lit.rows.slice(LIT).forEach((row) => ring(row, size / 2 + 2, inks.accent));
    context.font = `600 12px ${inks.sans}`;
    context.textBaseline = "middle";
    const boxes = [];
    const named = lit.ways.has(-1) ? way : way.slice(0, -1);
    for (const place of named) {
      const [x, y] = pixel(place);
      context.textAlign = "left";
      context.strokeStyle = inks.map;
      context.lineWidth = 4;
      context.strokeText(place.name, x + 13, y);
      context.fillStyle = inks.accent;
      context.fillText(place.name, x + 13, y);
      boxes.push([x - 10, y - 10, x + 16 + context.measureText(place.name).width, y + 10]);
    }
    const marks = lit.ways.has(-1) ? way : lit.rows.slice(0, LIT).map((row) => ({ x: points.x[row], y: points.y[row] }));
    for (const [rank, place] of [...marks.entries()].reverse()) {
      const [x, y] = pixel(place);
      context.fillStyle = inks.accent;
      context.beginPath();
      context.arc(x, y, 9, 0, 6.2832);
      context.fill();
      context.textAlign = "center";
      context.fillStyle = inks["accent-ink"];
      context.fillText(rank + 1, x, y + 0.5);
      boxes.push([x - 9, y - 9, x + 9, y + 9]);
    }
    return boxes;
  }

  function paintDiscs(visible, size) {
    context.fillStyle = inks.map;
    context.fillRect(0, 0, width, height);
    let last = null;
    for (let place = 0; place < visible; place++) {
      const row = shown[place];
      const colour = palette[shade[row]];
      if (colour !== last) {
        context.fillStyle = last = colour;
        context.globalAlpha = shade[row] === FADED ? 0.35 : 0.88;
      }
      context.beginPath();
      context.arc(px(row), py(row), size / 2, 0, 6.2832);
      context.fill();
    }
    context.globalAlpha = 1;
  }

  // Many points: straight into the pixels, which is ten times as fast.
  function paintPixels(size) {
    const [across, down] = [canvas.width, canvas.height];
    if (image?.width !== across || image?.height !== down) image = context.createImageData(across, down);
    const pixels = new Uint32Array(image.data.buffer);
    pixels.fill(inMemory(inks.map, 1));
    const colours = Uint32Array.from(palette, (colour, number) => (colour ? inMemory(colour, number === FADED ? 0.35 : 1, inks.map) : 0));
    const broad = Math.max(1, Math.round(size * devicePixelRatio));
    const offsets = [];
    for (let y = 0; y < broad; y++) for (let x = 0; x < broad; x++) if (Math.hypot(x - (broad - 1) / 2, y - (broad - 1) / 2) <= broad / 2) offsets.push(y * across + x);
    const [xScale, yScale] = [view.scale * stretch * devicePixelRatio, view.scale * devicePixelRatio];
    const [left, top] = [(width / 2) * devicePixelRatio - view.x * xScale - broad / 2, (height / 2) * devicePixelRatio - view.y * yScale - broad / 2];
    for (let place = 0; place < points.number; place++) {
      const row = order[place];
      const x = Math.round(points.x[row] * xScale + left);
      const y = Math.round(points.y[row] * yScale + top);
      if (x < 0 || y < 0 || x + broad > across || y + broad > down) continue;
      const start = y * across + x;
      const colour = colours[shade[row]];
      for (let dot = 0; dot < offsets.length; dot++) pixels[start + offsets[dot]] = colour;
    }
    context.putImageData(image, 0, 0);
  }

  // ------------------------------------------------------------ colours and legend

  // As many colours as there are names, up to a limit: after those chosen by hand, hues that lie far apart.
  function coloursFor(count) {
    const more = Math.max(0, Math.min(count, MOST_COLOURS) - COLOURS[theme()].length);
    const hue = (place) => {
      context.fillStyle = `hsl(${(25 + place * 137.5) % 360} ${theme() === "dark" ? "55% 68%" : "60% 38%"})`;
      return context.fillStyle; // as #rrggbb
    };
    return [...COLOURS[theme()], ...Array.from({ length: more }, (_, place) => hue(place))];
  }

  function recolour() {
    const { codes, names } = points.by[points.colouring];
    const style = getComputedStyle(canvas);
    inks = Object.fromEntries(["ink", "accent", "accent-ink", "map", "sans"].map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
    const colours = points.colouring === "date" ? names.map((_, code) => between(RAMP[theme()], code / Math.max(1, names.length - 1))) : coloursFor(names.length);
    legendTitle.textContent = points.by[points.colouring].label || BY[points.colouring];
    palette = names.slice(0, colours.length).map((name, code) => (name ? colours[code] : OTHER[theme()]));
    palette.push(OTHER[theme()]);
    const counts = new Uint32Array(names.length);
    for (const code of codes) counts[code] += 1;
    const named = names.slice(0, palette.length - 1).map((name, code) => {
      const button = h("button", { type: "button", class: "quiet", "aria-pressed": String(only === code) }, h("span", { class: "dot" }), h("span", { class: "name" }, label(name)), h("span", { class: "count" }, number(counts[code])));
      button.querySelector(".dot").style.background = palette[code];
      button.addEventListener("click", () => {
        only = only === code ? -1 : code;
        recolour();
      });
      return h("li", null, button);
    });
    const rest = names.length - named.length;
    if (rest > 0) {
      const other = h("li", { class: "rest" }, h("span", { class: "dot" }), counted(rest, "other"));
      other.querySelector(".dot").style.background = OTHER[theme()];
      named.push(other);
    }
    legend.replaceChildren(...named);
    sort();
  }

  // Who is faded, and in which order points are drawn: faded ones first, then the rest from the rarest colour on.
  function sort() {
    const { codes } = points.by[points.colouring];
    const inside = chosen || lit ? new Set(chosen || lit.rows) : null;
    const last = palette.length - 1;
    palette[FADED] = OTHER[theme()];
    const counts = new Uint32Array(FADED + 2);
    for (let row = 0; row < points.number; row++) {
      const faded = (only >= 0 && codes[row] !== only) || (inside && !inside.has(row));
      shade[row] = faded ? FADED : Math.min(codes[row], last);
      counts[FADED - shade[row] + 1] += 1;
    }
    for (let place = 0; place <= FADED; place++) counts[place + 1] += counts[place];
    for (let row = 0; row < points.number; row++) order[counts[FADED - shade[row]]++] = row;
    palette.length = FADED + 1;
    redraw();
  }

  function label(name) {
    if (!name) return t("none");
    if (points.colouring === "kind") return kindWord(name);
    return points.by[points.colouring].titles.get(name) || name;
  }

  colour.addEventListener("change", () => {
    points.colouring = colour.value;
    only = -1;
    settle();
    recolour();
  });

  // ------------------------------------------------------------ the search or the path that is shown

  async function light(wanted) {
    try {
      lit = await findLit(wanted);
    } catch (error) {
      bar.after(problem(error));
      return;
    }
    litChip.hidden = !lit;
    litChip.replaceChildren(...(lit ? [...lit.chip, h("button", { type: "button", class: "quiet", "aria-label": t("Show no search"), onclick: () => (forget(), light(new URLSearchParams("q="))) }, "×")] : []));
    announce(litChip.textContent.replace("×", ""));
    settle();
    recolour();
    const shown = lit;
    await shown?.later?.().then((ways) => (shown.ways = ways), () => {});
    redraw();
  }

  // The address of what is shown, so that it can be shared.
  function settle() {
    const by = points.colouring !== points.usual && `by=${points.colouring}`;
    go(`/view/map?${[by, lit?.address].filter(Boolean).join("&")}`, { replace: true, quiet: true });
  }

  function nextHit(step) {
    if (!lit?.rows.length) return;
    const at = lit.rows.indexOf(hovered);
    const row = lit.rows[at < 0 ? 0 : (at + step + lit.rows.length) % lit.rows.length];
    view = { ...view, x: points.x[row], y: points.y[row], fitted: false };
    redraw();
    hover(row);
  }

  // ------------------------------------------------------------ hover

  const known = new Map();
  let asked = 0;

  async function about(rows) {
    const missing = rows.filter((row) => !known.has(row));
    const parts = [];
    for (let begin = 0; begin < missing.length; begin += 100) parts.push(get(`/map/passages?rows=${missing.slice(begin, begin + 100).join(",")}`));
    for (const { passages } of await Promise.all(parts)) for (const passage of passages) known.set(passage.row, passage);
    return rows.map((row) => known.get(row)).filter(Boolean);
  }

  function nearest(x, y, reach) {
    const [mx, my] = [(x - width / 2) / view.scale / stretch + view.x, (y - height / 2) / view.scale + view.y];
    const far = reach / view.scale;
    let best = -1;
    let least = far * far;
    for (let across = Math.max(0, (mx - far) >> 10); across <= Math.min(63, (mx + far) >> 10); across++) {
      for (let down = Math.max(0, (my - far) >> 10); down <= Math.min(63, (my + far) >> 10); down++) {
        for (const row of cells.get(across * CELL + down) || []) {
          const square = (points.x[row] - mx) ** 2 + (points.y[row] - my) ** 2;
          if (square < least) [least, best] = [square, row];
        }
      }
    }
    return best;
  }

  async function hover(row) {
    if (row === hovered) return;
    hovered = row;
    canvas.classList.toggle("pointing", row >= 0);
    redraw();
    const turn = ++asked;
    tip.hidden = true;
    if (row < 0) return;
    if (!known.has(row)) await new Promise((resolve) => setTimeout(resolve, 60));
    if (turn !== asked) return;
    const [passage] = await about([row]).catch(() => []);
    if (turn !== asked || !passage) return;
    tip.replaceChildren(h("strong", null, h("span", { class: `kind ${family(passage.kind)}` }, kindWord(passage.kind, passage.number, passage.printed)), passage.title || passage.kind === "log" ? heading(passage) : ""), h("span", { class: "small" }, points.by.document.titles.get(passage.document) || passage.document), h("div", { class: "gist" }, excerpt(passage)));
    announce(tip.innerText || tip.textContent);
    tip.hidden = false;
    const [x, y] = [px(row), py(row)];
    tip.style.left = `${Math.min(Math.max(8, x + 14), Math.max(8, width - tip.offsetWidth - 8))}px`;
    tip.style.top = `${y + 18 + tip.offsetHeight > height ? Math.max(8, y - tip.offsetHeight - 14) : y + 18}px`;
  }

  // ------------------------------------------------------------ pointers

  const fingers = new Map();
  let pressed = null;

  function position(event) {
    const frame = canvas.getBoundingClientRect();
    return [event.clientX - frame.left, event.clientY - frame.top];
  }

  function zoomAt(factor, x, y) {
    const smallest = whole() / 2;
    const scale = Math.min(smallest * 400, Math.max(smallest, view.scale * factor));
    view.x += ((x - width / 2) / stretch) * (1 / view.scale - 1 / scale);
    view.y += (y - height / 2) * (1 / view.scale - 1 / scale);
    view = { ...view, scale, fitted: false };
    redraw();
  }

  canvas.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    canvas.setPointerCapture(event.pointerId);
    const [x, y] = position(event);
    fingers.set(event.pointerId, [x, y]);
    pressed = { x, y, moved: false };
    if (fingers.size === 1 && (lassoing || event.shiftKey)) lasso = [[x, y]];
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = position(event);
    if (!fingers.has(event.pointerId)) {
      hover(nearest(x, y, REACH));
      return;
    }
    const [oldX, oldY] = fingers.get(event.pointerId);
    if (fingers.size === 2) {
      const [[, other]] = [...fingers].filter(([id]) => id !== event.pointerId);
      const before = Math.hypot(oldX - other[0], oldY - other[1]);
      view.x -= (x - oldX) / 2 / view.scale / stretch; // two fingers also move the map
      view.y -= (y - oldY) / 2 / view.scale;
      zoomAt(Math.hypot(x - other[0], y - other[1]) / Math.max(1, before), (x + other[0]) / 2, (y + other[1]) / 2);
      pressed.moved = true;
      lasso = null;
    } else if (pressed) {
      if (!pressed.moved && Math.hypot(x - pressed.x, y - pressed.y) < 5) return;
      pressed.moved = true;
      tip.hidden = true;
      if (lasso) lasso.push([x, y]);
      else {
        view = { ...view, x: view.x - (x - oldX) / view.scale / stretch, y: view.y - (y - oldY) / view.scale, fitted: false };
      }
      redraw();
    }
    fingers.set(event.pointerId, [x, y]);
  });
  const release = (event) => {
    fingers.delete(event.pointerId);
    if (fingers.size || !pressed) return;
    const { x, y, moved } = pressed;
    pressed = null;
    if (lasso && moved) choose(inLasso(lasso));
    else if (!moved && event.type === "pointerup") {
      const row = nearest(x, y, event.pointerType === "mouse" ? REACH : 22);
      if (row >= 0 && event.pointerType !== "mouse" && row !== hovered) hover(row); // a finger names first, then opens
      else if (row >= 0) open(row);
      else if (chosen) choose(null);
      else hover(-1);
    }
    lasso = null;
    redraw();
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && hover(-1));
  canvas.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      zoomAt(Math.exp(-event.deltaY * 0.0016), ...position(event));
    },
    { passive: false },
  );
  canvas.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (event.key === "+" || event.key === "=") zoomAt(1.25, width / 2, height / 2);
    else if (event.key === "-") zoomAt(0.8, width / 2, height / 2);
    else if (event.key === "0") fit();
    else if (event.key.toLowerCase() === "n") nextHit(event.key === "n" ? 1 : -1);
    else if (event.key === "Enter" && hovered >= 0) open(hovered);
    else if (move) {
      event.preventDefault();
      view = { ...view, x: view.x + (move[0] * 60) / view.scale / stretch, y: view.y + (move[1] * 60) / view.scale, fitted: false };
      redraw();
      hover(nearest(width / 2, height / 2, 400));
    }
  });

  async function open(row) {
    const [passage] = await about([row]).catch(() => []);
    if (passage) go(address(passage.id));
  }

  // ------------------------------------------------------------ the lasso

  lassoButton.addEventListener("click", () => {
    lassoing = !lassoing;
    lassoButton.setAttribute("aria-pressed", String(lassoing));
    canvas.classList.toggle("lassoing", lassoing);
  });

  function inLasso(corners) {
    const rows = [];
    for (let row = 0; row < points.number; row++) {
      const [x, y] = [px(row), py(row)];
      let inside = false;
      for (let here = 0, before = corners.length - 1; here < corners.length; before = here++) {
        const [[x1, y1], [x2, y2]] = [corners[here], corners[before]];
        if (y1 > y !== y2 > y && x < ((x2 - x1) * (y - y1)) / (y2 - y1) + x1) inside = !inside;
      }
      if (inside && (only < 0 || points.by[points.colouring].codes[row] === only)) rows.push(row);
    }
    return rows;
  }

  const MOST = 1000; // ids that a search among them may name

  async function choose(rows) {
    chosen = rows?.length ? rows : null;
    chosenPanel.hidden = !chosen;
    recolour();
    resize();
    if (!chosen) return;
    announce(t("{passages} chosen", { passages: counted(chosen.length, "passage") }));
    const some = chosen.slice(0, 40);
    chosenPanel.replaceChildren(h("h2", null, counted(chosen.length, "passage")), waiting(t("Reading …")));
    const passages = await about(some).catch(() => []);
    if (!chosen || chosen[0] !== some[0]) return;
    const box = h("input", { type: "search", "aria-label": t("Search among the chosen passages"), placeholder: t("Search among these"), required: true });
    const form = h("form", { role: "search" }, box, h("button", { class: "strong" }, t("Search|do it")));
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const all = await about(chosen.slice(0, MOST));
      const key = String(Date.now());
      sessionStorage.setItem(`among:${key}`, JSON.stringify(all.map((passage) => passage.id)));
      go(`/?q=${encodeURIComponent(box.value)}&among=${key}`);
    });
    const close = h("button", { type: "button", class: "quiet close", "aria-label": t("Choose none"), onclick: () => choose(null) }, "×");
    const rest = chosen.length - passages.length;
    chosenPanel.replaceChildren(
      close, h("h2", null, counted(chosen.length, "passage")), form,
      h("ul", { class: "neighbours" }, passages.map((passage) => row(passage))),
      rest > 0 ? h("p", { class: "small" }, t(chosen.length > MOST ? "and {number} more; a search looks at the first {most}" : "and {number} more", { number: number(rest), most: number(MOST) })) : "",
    );
  }

  // ------------------------------------------------------------

  function resize() {
    const frame = stage.getBoundingClientRect();
    const first = !view;
    if (first) view = { x: 0, y: 0, scale: 1 };
    [width, height] = [Math.max(50, frame.width), Math.max(50, frame.height)];
    canvas.width = Math.round(width * devicePixelRatio);
    canvas.height = Math.round(height * devicePixelRatio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    if (first || view.fitted) fit();
    paint();
  }
  const watcher = new ResizeObserver(resize);
  folding.addEventListener("toggle", () => view?.fitted && fit());
  const rethemed = () => recolour();
  const system = matchMedia("(prefers-color-scheme: dark)");
  watcher.observe(stage);
  addEventListener("themechange", rethemed);
  system.addEventListener("change", rethemed);
  recolour();
  resize();
  light(parameters);
  return () => {
    watcher.disconnect();
    removeEventListener("themechange", rethemed);
    system.removeEventListener("change", rethemed);
  };
}
