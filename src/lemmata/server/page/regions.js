// The names of regions on the map: few from far, more from near, none over another.

import { h } from "./dom.js";
import { t } from "./language.js";

const MARGIN = 6; // pixels around a name
const AROUND = 300; // pixels beyond the window, in which names still keep others away: panning changes little
const HEIGHT = 20;
const ROOM = 110; // pixels of the side of a cell that shows its name
const ruler = document.createElement("canvas").getContext("2d");

// `regions` have x and y on the map, a name and a level; the coarsest and best come first.
export function regionNames(regions) {
  const list = h("ul", { class: "regions", "aria-label": t("Regions") });
  ruler.font = `600 14px ${getComputedStyle(document.documentElement).getPropertyValue("--sans")}`;
  const widths = regions.map(({ name }) => ruler.measureText(name).width);
  const shown = new Map(); // number of a region: its element

  // `at` gives the pixel of a place on the map, `scale` the pixels of a unit; level 0 is always seen, each next one where
  // its cells have room for a name. `obstacles` are boxes that no name may cover.
  function draw(at, scale, width, height, obstacles) {
    const deepest = Math.max(0, Math.log2((65536 * scale) / 4 / ROOM));
    const boxes = [...obstacles];
    const now = new Set();
    for (let number = 0; number < regions.length && regions[number].level <= deepest; number++) {
      let [x, y] = at(regions[number]);
      if (x < -AROUND || y < -AROUND || x > width + AROUND || y > height + AROUND) continue;
      const half = widths[number] / 2 + MARGIN;
      const inside = x > 0 && y > 0 && x < width && y < height;
      if (inside) [x, y] = [Math.min(Math.max(x, half), width - half), Math.min(Math.max(y, HEIGHT), height - HEIGHT)];
      const box = [x - half, y - HEIGHT / 2 - 2, x + half, y + HEIGHT / 2 + 2];
      if (boxes.some((other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3])) continue;
      boxes.push(box);
      if (!inside) continue;
      now.add(number);
      if (!shown.has(number)) shown.set(number, list.appendChild(h("li", { dataset: { level: regions[number].level } }, regions[number].name)));
      shown.get(number).style.transform = `translate(${Math.round(x)}px, ${Math.round(y)}px) translate(-50%, -50%)`;
    }
    for (const [number, element] of shown) {
      if (now.has(number)) continue;
      element.remove();
      shown.delete(number);
    }
  }
  return { list, draw };
}
