// Bridge: paths between two ideas, drawn as one graph and told step by step.

import { get, post } from "./api.js";
import { address, announce, h, heading, link, row, waiting } from "./dom.js";
import { failure } from "./failure.js";
import { drawPaths } from "./graph.js";
import { counted, decimal, language, number, parts, t } from "./language.js";
import { family, kindWord, relationWords, shortName } from "./words.js";

export async function show(main, { parameters, go }) {
  const ends = ["from", "to"].map((key) => parameters.get(key) || "");
  document.title = `${t("Bridge")} – lemmata`;
  const options = h("datalist", { id: "concepts" });
  const boxes = ends.map((value, place) => {
    const label = t(place ? "To" : "From");
    const box = h("input", { type: place ? "text" : "search", id: `end-${place}`, value, list: "concepts", autocomplete: "off", required: true, maxlength: 2000, placeholder: t(place ? "another idea, concept or id" : "an idea, a concept or an id") });
    box.addEventListener("input", () => suggest(box.value, options));
    return [h("label", { for: `end-${place}` }, label), box];
  });
  const [first, last] = boxes.map(([, box]) => box);
  const swap = h("button", { type: "button", class: "quiet swap", "aria-label": t("Swap the two"), title: t("Swap") }, "⇄");
  swap.addEventListener("click", () => ([first.value, last.value] = [last.value, first.value]));
  const form = h("form", { class: "ends" }, h("div", null, boxes[0]), swap, h("div", null, boxes[1]), h("button", { class: "strong" }, t("Connect")), options);
  const result = h("section", { class: "bridge", "aria-label": t("Paths") });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const [source, target] = [first, last].map((box) => idOf(box.value.trim()));
    go(`/view/bridge?from=${encodeURIComponent(source)}&to=${encodeURIComponent(target)}`);
  });
  main.replaceChildren(h("h1", null, t("What connects them?")), h("p", { class: "lead" }, t("Paths through the graph, from one idea to another: along references, shared concepts and locations.")), form, result);
  suggest("", options);
  if (!ends[0] || !ends[1]) {
    (ends[0] ? last : first).focus();
    examples(result);
    return null;
  }
  const controller = new AbortController();
  const ask = () => {
    result.replaceChildren(waiting(t("Looking for paths …")));
    post("/bridge", { source: ends[0], target: ends[1], k: 12 }, controller.signal).then(
      (bridge) => {
        [first, last].forEach((box, place) => {
          const node = bridge.nodes[ends[place]];
          if (node?.kind !== "concept" || box.value !== ends[place]) return;
          known.set(node.title.toLowerCase(), ends[place]);
          box.value = node.title;
        });
        render(result, bridge);
      },
      (error) => error.name !== "AbortError" && result.replaceChildren(failure(error, ask)),
    );
  };
  ask();
  return () => controller.abort();
}

const known = new Map(); // name of a concept: id

async function suggest(prefix, options) {
  if (known.has(prefix.toLowerCase())) return;
  const wanted = prefix.trim() ? `/complete?k=12&prefix=${encodeURIComponent(prefix.slice(0, 200))}` : "/concepts?k=12";
  const { names, concepts } = await get(wanted).catch(() => ({ names: [] }));
  const found = (names || concepts).filter(({ what }) => what !== "author");
  for (const { name, id } of found) known.set(name.toLowerCase(), id);
  options.replaceChildren(...found.map(({ name, kind, id }) => h("option", { value: name, label: kind === "location" ? shortName(id) : null })));
}

function idOf(text) {
  return known.get(text.toLowerCase()) || text;
}

// Pairs of concepts with a telling path, and the concepts that it leads over.
async function examples(result) {
  const { bridges } = await get("/bridges").catch(() => ({ bridges: [] }));
  if (!bridges.length || result.childElementCount) return;
  const rows = bridges.map((way) => {
    const [from, to] = [way[0], way.at(-1)];
    const over = way.slice(1, -1).map(({ name }) => name).join(", ");
    return h("li", null, h("a", { href: `/view/bridge?from=${encodeURIComponent(from.id)}&to=${encodeURIComponent(to.id)}` }, `${from.name} → ${to.name}`), over && h("span", { class: "small" }, t("over {concepts}", { concepts: over })));
  });
  result.replaceChildren(h("h2", null, t("Try")), h("ul", { class: "tries" }, rows), h("p", { class: "small" }, t("No passage speaks of both, and chance hardly explains the path between them.")));
}

const CHANCE = 1; // such paths in a random graph, from which on a path says nothing
const COHERENT = 0.3; // the least similarity of neighbours on a path that hangs together
const SHOWN = 5;

// The paths that chance does not explain and that hang together; the others on demand.
function render(result, bridge, all = false) {
  const { nodes } = bridge;
  if (!bridge.paths.length) {
    announce(t("no path"));
    result.replaceChildren(h("p", { class: "empty" }, t("No path leads from one to the other: they lie in different parts of the graph.")));
    return;
  }
  const telling = bridge.paths.filter((path) => path.expected <= CHANCE && path.coherence >= COHERENT);
  const paths = (all ? bridge.paths : telling).slice(0, SHOWN);
  const hidden = all ? 0 : Math.min(SHOWN, bridge.paths.length) - Math.min(SHOWN, telling.length);
  const more = hidden > 0 && h("p", { class: "weaker" }, paths.length ? "" : `${t("Every path between them is one that chance would make, or does not hang together.")} `, h("button", { type: "button", class: "plain", onclick: () => render(result, bridge, true) }, t("Show {paths}", { paths: counted(hidden, "weaker path") })));
  announce(counted(paths.length, "path"));
  if (!paths.length) {
    result.replaceChildren(more);
    return;
  }
  const told = h("ol", { class: "told" }, paths.map((path, place) => tell(path, place, nodes)));
  const drawing = drawPaths(paths, nodes, (place) => {
    for (const [number, item] of [...told.children].entries()) item.classList.toggle("lit", number === place);
  });
  for (const [place, item] of [...told.children].entries()) {
    item.addEventListener("mouseenter", () => drawing.light(place));
    item.addEventListener("mouseleave", () => drawing.light(-1));
    item.addEventListener("focusin", () => drawing.light(place));
    item.addEventListener("focusout", () => drawing.light(-1));
  }
  const legend = h(
    "ul", { class: "small facts" },
    h("li", null, parts("{Distance} of a step or a path: 0 is the same, less is nearer.", { Distance: h("b", null, t("Distance")) })),
    h("li", null, parts("{Coherence} is the similarity of the two least similar neighbours on the path: below 0.3 it is weak.", { Coherence: h("b", null, t("Coherence")) })),
    h("li", null, parts("{Chance} is how many such paths a random graph with the same degrees would have: below 0.05 chance hardly explains the path, from 1 on it is nothing remarkable.", { Chance: h("b", null, t("By chance")) })),
  );
  result.replaceChildren(...[drawing.element, told, more, legend, passages(bridge, paths)].filter(Boolean));
}

function nodeName(id, nodes) {
  const node = nodes[id];
  if (!node) return h("q", { class: "node query" }, id);
  const text = heading({ ...node, id });
  return h("a", { href: address(id, node.kind), class: `node ${family(node.kind)}` }, h("span", { class: "kind" }, node.kind === "concept" ? "" : kindWord(node.kind, node.number, node.printed)), text);
}

function tell(path, place, nodes) {
  const expected = path.expected < 10 ? Number(path.expected).toLocaleString(language, { maximumSignificantDigits: 2, minimumSignificantDigits: 2 }) : path.expected > 1000 ? t("over {number}", { number: number(1000) }) : number(Math.round(path.expected));
  const facts = h(
    "p", { class: "facts" },
    h("span", { title: t("The sum of its steps; a step from or to a text counts 2.5 times") }, parts("distance {length}", { length: h("b", null, decimal(path.length, 2)) })),
    h("span", { title: t("The smallest similarity of two neighbours on the path") }, parts("coherence {value}", { value: h("b", null, decimal(path.coherence, 2)) })),
    h("span", { title: t("Paths like this in a random graph with the same degrees") }, parts("by chance {number} such paths", { number: h("b", null, expected) })),
    h("a", { href: `/view/map?${new URLSearchParams([path.steps[0].source, ...path.steps.map((step) => step.target)].map((id) => ["path", id]))}` }, t("on the map")),
  );
  const steps = path.steps.map((step) => {
    const others = (step.evidence || []).filter((id) => id !== step.source && id !== step.target).slice(0, 3);
    return h(
      "li", null,
      h("span", { class: "relation" }, relationWords(step.relation)), " ", nodeName(step.target, nodes),
      h("span", { class: "length", title: t("distance of this step") }, decimal(step.length, 2)),
      others.length > 0 && h("span", { class: "evidence" }, parts("stated in {passages}", { passages: others.map((id, number) => [number ? ", " : "", link(id, nodes[id]?.kind, heading({ ...nodes[id], id }))]) })),
    );
  });
  return h("li", null, h("h2", null, t("Path {number}", { number: place + 1 })), facts, h("p", { class: "start" }, nodeName(path.steps[0].source, nodes)), h("ol", { class: "steps" }, steps));
}

function passages({ passages: found, nodes }, shown) {
  const on = new Set(shown.flatMap((path) => path.steps.map((step) => step.target)));
  const records = found.filter(({ id }) => on.has(id));
  if (!records.length) return null;
  const rows = records.slice(0, 8).map(({ id }) => row({ ...nodes[id], id }));
  return h("section", { class: "between" }, h("h2", null, t("Passages in between")), h("ul", { class: "neighbours" }, rows));
}
