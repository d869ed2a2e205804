"""Frames of the map while it is dragged and zoomed, with very many points, in headless Chromium.

    python -m bench.map_frames WORKSPACE --points 100000

Serves the workspace, but answers /map with points made here. Times are those between two frames of the browser and of
the work of one frame; a machine without a GPU draws all of it by its processor.
"""

from __future__ import annotations

import argparse
import base64
import json
import statistics
from pathlib import Path
from typing import Any

import numpy as np
from tests.window import Window, launched, serving

MEASURE = """() => {
    const frames = [], spent = [];
    const own = window.requestAnimationFrame.bind(window);
    window.requestAnimationFrame = (act) => own((now) => {
        const begin = performance.now();
        act(now);
        spent.push(performance.now() - begin);
    });
    let last = 0;
    const tick = (now) => { if (last) frames.push(now - last); last = now; own(tick); };
    own(tick);
    window.measured = () => { window.requestAnimationFrame = own; return { frames, spent }; };
}"""


def synthetic_map(points: int, regions: int = 1000) -> dict[str, Any]:
    """Clusters of points, with ten categories and names for their regions."""
    rng = np.random.default_rng(0)
    centres = rng.uniform(0.1, 0.9, (200, 2))
    group = rng.integers(0, len(centres), points)
    places = np.clip(centres[group] + rng.normal(0, 0.02, (points, 2)), 0, 1)
    x, y = np.rint(places * 65_535).astype("<u2").T

    def coded(values: Any) -> str:
        return base64.b64encode(np.ascontiguousarray(values, "<u2").tobytes()).decode()

    zeros = np.zeros(points)
    names = {name: ["one"] for name in ("document", "chapter", "category", "date")}
    return {
        "points": points,
        "x": coded(x),
        "y": coded(y),
        **{name: coded(zeros) for name in names},
        "kind": coded(group % 10),
        "names": {**names, "kind": [f"kind {number}" for number in range(10)]},
        "titles": {"document": [""], "category": [""]},
        "regions": [
            {"id": f"concept:{at}", "name": f"region {at}", "x": int(x[at]), "y": int(y[at]), "level": min(5, at // 16)}
            for at in range(min(regions, points))
        ],
        "method": "umap",
        "generation": 1,
    }


def measure(page: Any, act: Any) -> dict[str, float]:
    """Median and 95th percentile of the milliseconds between frames and of the work in one, while something is done."""
    page.evaluate(MEASURE)
    act()
    measured = page.evaluate("() => window.measured()")
    frames, spent = measured["frames"], measured["spent"]
    return {
        "frames": len(frames),
        "between_median_ms": statistics.median(frames),
        "between_p95_ms": float(np.percentile(frames, 95)),
        "work_median_ms": statistics.median(spent),
        "work_p95_ms": float(np.percentile(spent, 95)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workspace", type=Path)
    parser.add_argument("--points", type=int, default=100_000)
    options = parser.parse_args()
    content = json.dumps(synthetic_map(options.points))
    with serving(options.workspace) as address, launched() as browser:
        window = Window(browser, address)
        page = window.page
        page.route(f"{address}/map", lambda route: route.fulfill(body=content, content_type="application/json"))
        window.open("/view/map")
        box = page.locator("canvas").bounding_box()
        middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

        def drag() -> None:
            page.mouse.move(*middle)
            page.mouse.down()
            for step in range(60):
                page.mouse.move(middle[0] + 3 * step, middle[1] + step)
            page.mouse.up()

        def zoom() -> None:
            for step in range(60):
                page.mouse.wheel(0, -40 if step < 30 else 40)

        report = {"points": options.points, "window": box, "gpu": False, "drag": measure(page, drag)}
        report["zoom"] = measure(page, zoom)
        print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
