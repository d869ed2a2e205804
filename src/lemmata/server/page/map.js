// The map: every passage a point on a canvas; colours, hover, click, and a lasso to search among some of them.

import { get } from "./api.js";
import { address, announce, excerpt, h, heading, row, waiting } from "./dom.js";
import { counted, language, number, t } from "./language.js";
import { family, kindWord } from "./words.js";

const COLOURS = {
  light: ["#1f6f8b", "#c2571a", "#4d7c0f", "#8b3d88", "#a88400", "#2753b8", "#b3304a", "#0f766e", "#6b5b4b", "#7a55c7"],
  dark: ["#6cc3dd", "#f09a5f", "#a3d15c", "#d88fd4", "#e5c34f", "#8fb0ff", "#f2869b", "#5fd0c0", "#c8b49f", "#b9a2f5"],
};
const OTHER = { light: "#b9b5ab", dark: "#565b61" };
const BY = { document: t("Document"), chapter: t("Chapter"), category: t("Category"), kind: t("Kind") };
const REACH = 14; // pixels from a point that still mean it
const FADED = 255; // the colour of points that are not chosen
const MOST_DISCS = 4000; // more points are drawn without smooth edges
const CELL = 64; // of the grid that finds the nearest point, in 1/65536 of the map: 2^16 / 2^10

export async function show(main, { parameters, go }) {
  document.title = `${t("Map")} – lemmata`;
  main.replaceChildren(h("h1", { class: "unseen" }, t("Map")), waiting(t("Drawing the map …")));
  const answer = await get("/map");
  const points = decode(answer);
  if (points.by[parameters.get("by")]?.names.length > 1) points.colouring = parameters.get("by");
  return draw(main, points, go);
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
  return { number: answer.points, x: array(answer.x), y: array(answer.y), by, colouring, method: answer.method };
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

function draw(main, points, go) {
  const cells = grid(points);
  const canvas = h("canvas", { tabindex: "0", role: "img", "aria-label": t("Map of {number} passages; near points have similar texts", { number: number(points.number) }) });
  const context = canvas.getContext("2d", { alpha: false });
  const tip = h("div", { class: "tip", hidden: true });
  const chosenPanel = h("aside", { class: "chosen", "aria-label": t("Chosen passages"), hidden: true });
  const legend = h("ul", { class: "legend" });
  const colour = h("select", { "aria-label": t("Colour by") }, Object.entries(BY).filter(([name]) => points.by[name].names.length > 1).map(([name, label]) => h("option", { value: name, selected: name === points.colouring }, points.by[name].label || label)));
  const lassoButton = h("button", { type: "button", class: "plain", "aria-pressed": "false", title: t("Draw around points to choose them (or hold Shift and drag)") }, t("Lasso"));
  const fitButton = h("button", { type: "button", class: "plain" }, t("Fit"));
  const bar = h("div", { class: "mapbar" }, colour.options.length > 1 ? h("label", null, `${t("Colour by")} `, colour) : colour.options.length > 0 && h("span", { class: "small" }, t("Coloured by {what}", { what: language === "en" ? colour.options[0].text.toLowerCase() : colour.options[0].text })), lassoButton, fitButton, h("span", { class: "small" }, t("{passages}; near points have similar texts", { passages: counted(points.number, "passage") })));
  const stage = h("div", { class: "stage" }, canvas, tip);
  main.replaceChildren(h("h1", { class: "unseen" }, t("Map")), bar, h("div", { class: "maparea" }, stage, legend, chosenPanel));

  let width = 0;
  let height = 0;
  let stretch = 1; // of the map from left to right, to fill the window: distances on it are rough anyway
  let view = null; // the centre of the window on the map and its scale, in pixels per unit
  let lasso = null; // corners, in pixels
  let lassoing = false;
  let chosen = null; // rows
  let only = -1; // code of the legend that is lit
  let hovered = -1;
  let palette = [];
  let queued = false;
  let image = null;
  const shade = new Uint8Array(points.number); // the colour of each point, or FADED
  const order = new Uint32Array(points.number); // rows, those that are drawn last on top
  const shown = new Uint32Array(points.number); // the first of them are those in the window

  const theme = () => {
    const set = document.documentElement.dataset.theme;
    return set || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  };
  const whole = () => (Math.min(width / stretch, height) - 40) / 65536; // the scale that shows everything
  const fit = () => {
    view = { x: 32768, y: 32768, scale: whole() };
    redraw();
  };
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
    const style = getComputedStyle(canvas);
    context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    context.fillStyle = style.getPropertyValue("--map");
    context.fillRect(0, 0, width, height);
    const zoom = view.scale / whole();
    const size = Math.min(9, Math.max(1.6, (points.number > 5000 ? 2 : points.number > 1500 ? 3.4 : 5.4) * Math.pow(zoom, 0.42)));
    let visible = 0;
    for (const row of order) {
      const [x, y] = [px(row), py(row)];
      if (x > -9 && y > -9 && x < width + 9 && y < height + 9) shown[visible++] = row;
    }
    if (visible > MOST_DISCS) paintPixels(visible, size);
    else paintDiscs(visible, size);
    context.globalAlpha = 1;
    if (hovered >= 0) {
      context.strokeStyle = style.getPropertyValue("--ink");
      context.lineWidth = 2;
      context.beginPath();
      context.arc(px(hovered), py(hovered), size / 2 + 4, 0, 6.2832);
      context.stroke();
    }
    if (lasso?.length > 1) {
      context.strokeStyle = style.getPropertyValue("--accent");
      context.setLineDash([5, 4]);
      context.lineWidth = 1.5;
      context.beginPath();
      lasso.forEach(([x, y], place) => (place ? context.lineTo(x, y) : context.moveTo(x, y)));
      context.closePath();
      context.stroke();
      context.setLineDash([]);
      context.globalAlpha = 0.08;
      context.fillStyle = style.getPropertyValue("--accent");
      context.fill();
      context.globalAlpha = 1;
    }
  }

  function paintDiscs(visible, size) {
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
  }

  // Many points: straight into the pixels, which is ten times as fast.
  function paintPixels(visible, size) {
    const [across, down] = [canvas.width, canvas.height];
    if (image?.width !== across || image?.height !== down) image = context.createImageData(across, down);
    const pixels = new Uint32Array(image.data.buffer);
    pixels.fill(inMemory(getComputedStyle(canvas).getPropertyValue("--map").trim(), 1));
    const ground = getComputedStyle(canvas).getPropertyValue("--map").trim();
    const colours = Object.fromEntries(Object.entries(palette).map(([number, colour]) => [number, inMemory(colour, Number(number) === FADED ? 0.35 : 1, ground)]));
    const width_ = Math.max(1, Math.round(size * devicePixelRatio));
    const offsets = [];
    for (let y = 0; y < width_; y++) for (let x = 0; x < width_; x++) if (Math.hypot(x - (width_ - 1) / 2, y - (width_ - 1) / 2) <= width_ / 2) offsets.push([x, y]);
    for (let place = 0; place < visible; place++) {
      const row = shown[place];
      const left = Math.round(px(row) * devicePixelRatio - width_ / 2);
      const top = Math.round(py(row) * devicePixelRatio - width_ / 2);
      if (left < 0 || top < 0 || left + width_ > across || top + width_ > down) continue;
      const colour = colours[shade[row]];
      const start = top * across + left;
      for (const [x, y] of offsets) pixels[start + y * across + x] = colour;
    }
    context.putImageData(image, 0, 0);
  }

  // ------------------------------------------------------------ colours and legend

  function recolour() {
    const { codes, names } = points.by[points.colouring];
    const colours = COLOURS[theme()];
    const many = names.length > colours.length;
    palette = names.slice(0, many ? colours.length : names.length).map((name, code) => (name ? colours[code] : OTHER[theme()]));
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
    const inside = chosen ? new Set(chosen) : null;
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
    go(`/view/map?by=${colour.value}`, { replace: true, quiet: true });
    recolour();
  });

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
    if (row < 0) {
      tip.hidden = true;
      return;
    }
    if (!known.has(row)) await new Promise((resolve) => setTimeout(resolve, 60));
    if (turn !== asked) return;
    const [passage] = await about([row]).catch(() => []);
    if (turn !== asked || !passage) return;
    tip.replaceChildren(h("strong", null, h("span", { class: `kind ${family(passage.kind)}` }, kindWord(passage.kind, passage.number, passage.printed)), passage.title || passage.kind === "log" ? heading(passage) : ""), h("span", { class: "small" }, points.by.document.titles.get(passage.document) || passage.document), h("div", { class: "gist" }, excerpt(passage)));
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
    view.scale = scale;
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
      zoomAt(Math.hypot(x - other[0], y - other[1]) / Math.max(1, before), (x + other[0]) / 2, (y + other[1]) / 2);
      pressed.moved = true;
      lasso = null;
    } else if (pressed) {
      if (!pressed.moved && Math.hypot(x - pressed.x, y - pressed.y) < 5) return;
      pressed.moved = true;
      tip.hidden = true;
      if (lasso) lasso.push([x, y]);
      else {
        view.x -= (x - oldX) / view.scale / stretch;
        view.y -= (y - oldY) / view.scale;
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
      if (row >= 0) open(row);
      else if (chosen) choose(null);
    }
    lasso = null;
    redraw();
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", () => hover(-1));
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
    else if (event.key === "Enter" && hovered >= 0) open(hovered);
    else if (move) {
      event.preventDefault();
      view.x += (move[0] * 60) / view.scale;
      view.y += (move[1] * 60) / view.scale;
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
  fitButton.addEventListener("click", fit);

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
    [width, height] = [Math.max(50, frame.width), Math.max(50, frame.height)];
    stretch = Math.min(1.5, Math.max(0.7, width / height));
    canvas.width = Math.round(width * devicePixelRatio);
    canvas.height = Math.round(height * devicePixelRatio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    if (first) fit();
    paint();
  }
  const watcher = new ResizeObserver(resize);
  const rethemed = () => recolour();
  const system = matchMedia("(prefers-color-scheme: dark)");
  watcher.observe(stage);
  addEventListener("themechange", rethemed);
  system.addEventListener("change", rethemed);
  resize();
  recolour();
  return () => {
    watcher.disconnect();
    removeEventListener("themechange", rethemed);
    system.removeEventListener("change", rethemed);
  };
}
