// The neighbourhood of a passage or concept: what points to it on the left, what it points to on the right. A node opens
// its own neighbours by its sign, is dragged by its box, and leads to its page.

import { get } from "./api.js";
import { address, h, svg } from "./dom.js";
import { HEIGHT, WIDTH, arrow, boxInside, frame, panAndZoom } from "./graph.js";
import { decimal, percent, t } from "./language.js";
import { family, kindWord, relationWords, shortRelation, shortName } from "./words.js";

const GAP = 132; // between columns: room for the bend and the words of an edge
const BEND = 40;
const LANE = 78;
const FIRST = 6; // neighbours on each side of the node
const MORE = 5; // neighbours of one that is opened
const MOST_OF_A_RELATION = 4;
const ORDER = ["defines", "proof_uses", "refers_to", "uses", "generalizes", "is_instance_of", "implies", "equivalent_to", "follow_up_of", "cites", "reports_about", "related_to", "similar_to", "mentions", "part_of"];
const KINDS = { result: "results", term: "definitions, concepts", example: "examples, exercises", log: "logs, locations", prose: "text" };

// What a node is linked with in the graph; passages of one document are not near because they stand in it.
export function inGraph(signal) {
  return (node) => get(`/graph/${encodeURIComponent(node)}?limit=40&siblings=false`, signal);
}

// The concepts that a concept is related to.
export function amongConcepts(signal) {
  return async (node) => {
    const { id, name, relations } = await get(`/concepts/${encodeURIComponent(node)}`, signal);
    const others = relations.map((edge) => ({ id: edge.source === id ? edge.target : edge.source, name: edge.name, kind: "concept" }));
    return { id, nodes: [{ id, name, kind: "concept" }, ...others], edges: relations };
  };
}

export async function around(id, neighbours) {
  const answer = await neighbours(id);
  const records = new Map(answer.nodes.map((node) => [node.id, node]));
  const root = { id: answer.id, side: 0, depth: 0, parent: null, children: [], opened: true };
  const placed = new Map([[root.id, root]]);
  add(root, answer.edges, FIRST);
  if (placed.size < 2) return null;

  const lines = svg("g");
  const boxes = svg("g");
  const drawing = svg("svg", { class: "graph", role: "group", tabindex: "0", "aria-label": t("What it is linked with") }, arrow(), svg("g", { class: "layer" }, lines, boxes));
  const size = { x: 0, y: 0, width: 1, height: 1 };
  const zoom = panAndZoom(drawing, size);
  const legend = h("ul", { class: "key" });
  redraw();
  requestAnimationFrame(zoom.begin); // once it has its width
  return h("div", null, frame(drawing, zoom, t("A line leads from what refers to what is referred to. + opens a node, a box can be dragged.")), legend);

  // The nearest neighbours of a node that are not drawn yet, the most telling relations first.
  function add(node, edges, most) {
    const rank = ({ relation }) => (ORDER.indexOf(relation) + ORDER.length) % ORDER.length;
    const own = edges.filter((edge) => edge.source === node.id || edge.target === node.id).sort((a, b) => rank(a) - rank(b) || (a.length || 0) - (b.length || 0));
    const counts = new Map();
    for (const edge of own) {
      const forwards = edge.source === node.id;
      const other = forwards ? edge.target : edge.source;
      const side = node.side || (forwards ? 1 : -1);
      const key = `${edge.relation}${forwards}`;
      if (placed.has(other) || !records.has(other) || node.children.filter((child) => child.side === side).length >= most || (counts.get(key) || 0) >= MOST_OF_A_RELATION) continue;
      counts.set(key, (counts.get(key) || 0) + 1);
      const child = { id: other, side, depth: node.depth + 1, parent: node, children: [], opened: false, relation: edge.relation, forwards, length: edge.length, probability: edge.probability };
      node.children.push(child);
      placed.set(other, child);
    }
    return node.children.length;
  }

  async function open(node) {
    node.opened = true;
    const found = await neighbours(node.id).catch(() => null);
    for (const record of found?.nodes || []) if (!records.has(record.id)) records.set(record.id, record);
    if (found) add(node, found.edges, MORE);
    redraw();
    boxes.querySelector(`[data-id="${CSS.escape(node.id)}"]`)?.focus({ preventScroll: true });
  }

  // Leaves on lanes of their own, a node in the middle of its children; what was dragged stays where it is.
  function layout() {
    for (const side of [-1, 1]) {
      let lane = 0;
      const put = (node) => {
        const children = node.children.filter((child) => child.side === side);
        const lanes = children.map(put);
        const own = children.length ? lanes.reduce((sum, one) => sum + one, 0) / lanes.length : lane++;
        if (node !== root && !node.dragged) [node.x, node.y] = [side * node.depth * (WIDTH + GAP), own * LANE];
        return own;
      };
      const middle = put(root);
      for (const node of placed.values()) if (node.side === side && !node.dragged) node.y -= middle * LANE;
    }
    if (!root.dragged) [root.x, root.y] = [0, 0];
  }

  function redraw() {
    layout();
    drawLines();
    boxes.replaceChildren(...[...placed.values()].map(box));
    const [xs, ys] = [[...placed.values()].map(({ x }) => x), [...placed.values()].map(({ y }) => y)];
    Object.assign(size, { x: Math.min(...xs) - 24, y: Math.min(...ys) - 18 });
    Object.assign(size, { width: Math.max(...xs) + WIDTH + 24 - size.x, height: Math.max(...ys) + HEIGHT + 18 - size.y });
    zoom.begin();
    const families = new Set([...placed.keys()].map((node) => family(records.get(node).kind)));
    legend.replaceChildren(...Object.entries(KINDS).filter(([name]) => families.has(name)).map(([name, words]) => h("li", { class: name }, t(words))));
    if (lines.querySelector(".guess")) legend.append(h("li", { class: "guess" }, t("predicted, with its probability")));
  }

  function drawLines() {
    lines.replaceChildren(...[...placed.values()].filter((node) => node.parent).map(line));
  }

  function line(node) {
    const { parent, side } = node;
    const [x1, y1] = [parent.x + (side > 0 ? WIDTH : 0), parent.y + HEIGHT / 2];
    const [x2, y2] = [node.x + (side > 0 ? 0 : WIDTH), node.y + HEIGHT / 2];
    const outwards = node.forwards;
    const end = outwards ? x2 - 2 * side : x2;
    const begin = outwards ? x1 : x1 + 2 * side;
    const path = `M${begin} ${y1}C${x1 + side * BEND} ${y1} ${x1 + side * BEND * 0.3} ${y2} ${x1 + side * BEND * 1.4} ${y2}L${end} ${y2}`;
    return svg(
      "g", { class: node.probability ? "edge guess" : "edge" },
      svg("title", null, `${relationWords(node.forwards ? node.relation : `^${node.relation}`)}${node.length ? `, ${t("distance {length}", { length: decimal(node.length, 2) })}` : ""}`),
      svg("path", { class: "line", d: path, [outwards ? "marker-end" : "marker-start"]: "url(#arrow)" }),
      svg("text", { x: x2 - side * 12, y: y2 - 5, class: side > 0 ? "words last" : "words first" }, shortRelation(node.relation)),
      node.probability && svg("text", { x: x2 - side * 12, y: y2 + 14, class: side > 0 ? "words last" : "words first" }, percent(node.probability)),
    );
  }

  function box(node) {
    const record = records.get(node.id);
    const name = `${kindWord(record.kind, record.number, record.printed)} ${record.name || shortName(node.id)}`;
    const link = svg("a", { class: `box ${family(record.kind)}${node === root ? " here" : ""}`, href: address(node.id, record.kind), "data-id": node.id, draggable: "false" }, boxInside(node.id, record, 0, 0));
    const group = svg("g", { transform: `translate(${node.x} ${node.y})` }, link);
    if (!node.opened) group.append(sign(node, name));
    drag(group, link, node);
    return group;
  }

  function sign(node, name) {
    const x = node.side > 0 ? WIDTH : 0;
    const button = svg("g", { class: "open", role: "button", tabindex: "0", "aria-label": t("Show the neighbours of {name}", { name }) }, svg("circle", { cx: x, cy: HEIGHT / 2, r: 9 }), svg("path", { d: `M${x - 4} ${HEIGHT / 2}h8M${x} ${HEIGHT / 2 - 4}v8` }));
    button.addEventListener("click", () => open(node));
    button.addEventListener("keydown", (event) => (event.key === "Enter" || event.key === " ") && (event.preventDefault(), open(node)));
    return button;
  }

  function drag(group, link, node) {
    let from = null;
    link.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      event.stopPropagation(); // which would move the whole drawing
      link.setPointerCapture(event.pointerId); // the first move may already be outside of the box
      from = { point: zoom.at(event), x: node.x, y: node.y };
    });
    link.addEventListener("dragstart", (event) => event.preventDefault());
    link.addEventListener("pointermove", (event) => {
      if (!from) return;
      const [dx, dy] = zoom.at(event).map((value, axis) => value - from.point[axis]);
      if (!from.moved && Math.hypot(dx, dy) < 5) return;
      from.moved = node.dragged = true;
      [node.x, node.y] = [from.x + dx, from.y + dy];
      group.setAttribute("transform", `translate(${node.x} ${node.y})`);
      drawLines();
    });
    link.addEventListener("pointerup", () => (from = from?.moved ? { over: true } : null));
    link.addEventListener("pointercancel", () => (from = null));
    link.addEventListener("click", (event) => from?.over && (event.preventDefault(), event.stopPropagation(), (from = null)));
  }
}
