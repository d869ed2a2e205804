// Paths from left to right, one lane each, shared nodes drawn once; and what all drawings have: boxes, panning, zooming.

import { address, h, svg } from "./dom.js";
import { counted, decimal, t } from "./language.js";
import { family, kindWord, relationWords, shortName, shortRelation, shortened } from "./words.js";

export const WIDTH = 164; // of a node
export const HEIGHT = 64; // its kind, and two lines of its name
const GAP = 84; // between nodes of a lane, room for the words of an edge
const BEND = 44; // more room at both ends, where edges of several lanes meet
const LANE = 96;
const SMALLEST = 0.6; // scale at which the words can still be read: a wider drawing begins at its left end

export function drawPaths(paths, nodes, lit) {
  const lines = new Map(); // the two ends of an edge: the step, and the paths that use it
  paths.forEach((path, number) => {
    for (const step of path.steps) {
      const key = `${step.source}\n${step.target}`;
      if (lines.has(key)) lines.get(key).paths.push(number);
      else lines.set(key, { step, paths: [number] });
    }
  });
  const { drawing, layer, element } = draw(place(paths), [...lines.values()], nodes, t("{paths}; they are told below", { paths: counted(paths.length, "path") }));
  const light = (number) => {
    drawing.classList.toggle("dim", number >= 0);
    for (const { drawn, paths: used } of lines.values()) drawn.classList.toggle("lit", used.includes(number));
    const on = number >= 0 ? new Set(paths[number].steps.flatMap((step) => [step.source, step.target])) : new Set();
    for (const box of layer.querySelectorAll(".box")) box.classList.toggle("lit", on.has(box.dataset.id));
  };
  for (const { drawn, paths: used } of lines.values()) {
    drawn.addEventListener("mouseenter", () => (light(used[0]), lit(used[0])));
    drawn.addEventListener("mouseleave", () => (light(-1), lit(-1)));
  }
  return { element, light };
}

// Nodes at their places and the edges between them; each line gets its element as `drawn`.
function draw(placed, lines, nodes, label) {
  const columns = Math.max(...[...placed.values()].map((node) => node.column));
  const across = columns * (WIDTH + GAP) + (columns > 1 ? 2 * BEND : 0);
  const lanes = Math.max(...[...placed.values()].map((node) => node.lane));
  const x = ({ column }) => column * (WIDTH + GAP) + (columns > 1 ? BEND * (Math.min(1, column) + Math.max(0, column - columns + 1)) : 0);
  const y = (node) => node.lane * LANE;
  const layer = svg("g", { class: "layer" });
  for (const line of lines) {
    const [from, to] = [placed.get(line.step.source), placed.get(line.step.target)];
    const fan = (end) => lines.filter((other) => other.step[end] === line.step[end]).length > 1;
    const beside = from.lane === to.lane ? "" : fan("source") ? "target" : fan("target") ? "source" : "";
    line.drawn = edge(x(from) + WIDTH, y(from) + HEIGHT / 2, x(to), y(to) + HEIGHT / 2, line.step, beside);
    layer.append(line.drawn);
  }
  for (const [id, node] of placed) layer.append(box(id, nodes[id], x(node), y(node)));
  const size = { x: -16, y: -22, width: across + WIDTH + 32, height: lanes * LANE + HEIGHT + 44 };
  const drawing = svg("svg", { class: "graph", role: "group", tabindex: "0", "aria-label": label }, arrow(), layer);
  const zoom = panAndZoom(drawing, size);
  requestAnimationFrame(zoom.begin);
  return { drawing, layer, element: frame(drawing, zoom, t("Arrows point the way a relation goes; numbers are distances, less is nearer.")) };
}

// A drawing with what moves it.
export function frame(drawing, zoom, hint) {
  const button = (sign, name, act) => h("button", { type: "button", class: "plain", "aria-label": name, title: name, onclick: act }, sign);
  const tools = h("div", null, button("+", t("Zoom in"), () => zoom.by(0.8)), button("−", t("Zoom out"), () => zoom.by(1.25)), button(t("Fit"), t("Fit: show all"), () => zoom.fit()));
  return h("div", null, h("div", { class: "drawing" }, drawing), h("div", { class: "zoom" }, h("span", { class: "small" }, `${hint} ${t("Drag to move, Ctrl and wheel to zoom.")}`), tools));
}

// Each path is a lane, and its nodes are spread evenly from the first column to the last; a node of two paths is drawn
// where the first of them has it, and the second goes there.
function place(paths) {
  const placed = new Map();
  const last = Math.max(...paths.map((path) => path.steps.length));
  const middle = (paths.length - 1) / 2;
  placed.set(paths[0].steps[0].source, { column: 0, lane: middle });
  placed.set(paths[0].steps.at(-1).target, { column: last, lane: middle });
  paths.forEach((path, lane) => {
    const ids = [path.steps[0].source, ...path.steps.map((step) => step.target)];
    for (let begin = 0; begin < ids.length - 1; ) {
      let end = begin + 1;
      while (!placed.has(ids[end])) end++;
      const [from, to] = [placed.get(ids[begin]).column, placed.get(ids[end]).column];
      for (let number = begin + 1; number < end; number++) placed.set(ids[number], { column: from + ((to - from) * (number - begin)) / (end - begin), lane });
      begin = end;
    }
  });
  const used = [...new Set([...placed.values()].map((node) => node.lane))].filter(Number.isInteger).sort((a, b) => a - b);
  const inner = [...placed.values()].slice(2);
  for (const node of inner) node.lane = used.indexOf(node.lane);
  for (const node of [...placed.values()].slice(0, 2)) node.lane = Math.max(0, new Set(inner.map((one) => one.lane)).size - 1) / 2;
  return placed;
}

export function arrow() {
  const marker = (id) => svg("marker", { id, viewBox: "0 0 8 8", refX: "7.2", refY: "4", markerWidth: "7", markerHeight: "7", orient: "auto-start-reverse" }, svg("path", { d: "M0 .8 7.4 4 0 7.2z" }));
  return svg("defs", null, marker("arrow"));
}

// Where the words of an edge stand: of several edges that meet at one node, in the lane of the other end, apart from each other.
function middle(x1, y1, x2, y2, beside) {
  if (beside === "target") return [x2 - GAP / 2, y2];
  if (beside === "source") return [x1 + GAP / 2, y1];
  return [(x1 + x2) / 2, (y1 + y2) / 2];
}

function edge(x1, y1, x2, y2, step, beside) {
  const backwards = step.relation.startsWith("^");
  const [from, to] = backwards ? [x1 + 2, x2] : [x1, x2 - 2];
  const [left, right] = [beside === "source" ? x1 + GAP : from, beside === "target" ? x2 - GAP : to]; // straight below its words
  const bend = Math.max(BEND / 2, (right - left) * 0.5);
  const line = `M${from} ${y1}${beside === "source" ? `L${left} ${y1}` : ""}C${left + bend} ${y1} ${right - bend} ${y2} ${right} ${y2}${beside === "target" ? `L${to} ${y2}` : ""}`;
  const [mx, my] = middle(x1, y1, x2, y2, beside);
  const words = relationWords(step.relation);
  return svg(
    "g", { class: "edge" },
    svg("title", null, `${words}, ${t("distance {length}", { length: decimal(step.length, 2) })}`),
    svg("path", { class: "wide", d: line }), svg("path", { class: "line", d: line, [backwards ? "marker-start" : "marker-end"]: "url(#arrow)" }),
    svg("text", { x: mx, y: my - 6, class: "words" }, shortRelation(step.relation)), svg("text", { x: mx, y: my + 13, class: "length" }, decimal(step.length, 2)),
  );
}

function box(id, node, x, y) {
  if (!node) return svg("g", { class: "box query", "data-id": id }, boxInside(id, node, x, y));
  return svg("a", { class: `box ${family(node.kind)}`, href: address(id, node.kind), "data-id": id }, boxInside(id, node, x, y));
}

// Kind and number above the name.
export function boxInside(id, node, x, y) {
  const kind = node ? kindWord(node.kind, node.number, node.printed) : t("text");
  return [
    svg("rect", { x, y, width: WIDTH, height: HEIGHT, rx: 9 }),
    svg("text", { x: x + 12, y: y + 19, class: "kind" }, kind),
    ...fitted(node ? node.name || shortName(id) : id).map((line, place) => svg("text", { x: x + 12, y: y + 37 + 18 * place, class: "name" }, line)),
  ];
}

const ruler = document.createElement("canvas").getContext("2d");

// A name in two lines at most, the second one cut where the box ends.
function fitted(name) {
  ruler.font = `15.5px ${getComputedStyle(document.documentElement).getPropertyValue("--serif")}`;
  const fits = (text) => ruler.measureText(text).width <= WIDTH - 24;
  const words = name.split(" ");
  let first = 1;
  while (first < words.length && fits(words.slice(0, first + 1).join(" "))) first++;
  return [words.slice(0, first).join(" "), words.slice(first).join(" ")].filter(Boolean).map((line) => {
    let most = line.length;
    while (most > 1 && !fits(shortened(line, most))) most--;
    return shortened(line, most);
  });
}

export function panAndZoom(drawing, size) {
  let view;
  const apply = () => drawing.setAttribute("viewBox", `${view.x} ${view.y} ${view.width} ${view.height}`);
  const fit = () => {
    view = { ...size };
    apply();
  };
  const begin = () => {
    const room = drawing.clientWidth || 1000;
    const scale = Math.min(1.15, Math.max(SMALLEST, room / size.width));
    drawing.setAttribute("height", String(Math.round(Math.min(560, size.height * scale))));
    view = { x: scale > SMALLEST ? size.x - (room / scale - size.width) / 2 : size.x, y: size.y, width: room / scale, height: size.height };
    apply();
  };
  const by = (factor, cx = view.x + view.width / 2, cy = view.y + view.height / 2) => {
    const width = Math.min(size.width * 3, Math.max(200, view.width * factor));
    const scale = width / view.width;
    view = { x: cx - (cx - view.x) * scale, y: cy - (cy - view.y) * scale, width, height: view.height * scale };
    apply();
  };
  const at = (event) => {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(drawing.getScreenCTM().inverse());
    return [point.x, point.y];
  };
  drawing.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && !event.metaKey && document.activeElement !== drawing) return; // the page scrolls
      event.preventDefault();
      by(Math.exp(event.deltaY * 0.0015), ...at(event));
    },
    { passive: false },
  );
  let start = null;
  drawing.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    start = { point: at(event), x: event.clientX, y: event.clientY, moved: false };
  });
  drawing.addEventListener("pointermove", (event) => {
    if (!event.buttons) start = null; // it was released outside, before there was a capture
    if (!start) return;
    if (!start.moved && Math.hypot(event.clientX - start.x, event.clientY - start.y) < 5) return;
    if (!start.moved) drawing.setPointerCapture(event.pointerId);
    start.moved = true;
    const [px, py] = at(event);
    view.x += start.point[0] - px;
    view.y += start.point[1] - py;
    apply();
  });
  const stop = () => (start = start?.moved ? { ...start, over: true } : null);
  drawing.addEventListener("pointerup", stop);
  drawing.addEventListener("pointercancel", () => (start = null));
  drawing.addEventListener(
    "click",
    (event) => {
      if (start?.over) event.preventDefault(), event.stopPropagation();
      start = null;
    },
    true,
  );
  drawing.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (event.key === "+" || event.key === "=") by(0.8);
    else if (event.key === "-") by(1.25);
    else if (event.key === "0") fit();
    else if (move) {
      event.preventDefault();
      view.x += move[0] * view.width * 0.08;
      view.y += move[1] * view.height * 0.08;
      apply();
    }
  });
  fit();
  return { by, fit, begin, at };
}
