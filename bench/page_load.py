r"""What a running server's page costs to open, and what axe-core says about its views in light and in dark colours.

    lemmata serve -w WORKSPACE --port 8800 &
    python -m bench.page_load http://127.0.0.1:8800 [--loads 7] [--axe node_modules/axe-core/axe.min.js]

Each load has a browser context of its own, so nothing is cached. Usable is when the start view stands below a search
field that takes keys; of several loads the quickest counts, for others may use the machine. `cpu_s` is what the page's
own thread has computed when all is loaded.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

NOTES_WHEN_USABLE = """
new MutationObserver((_, observer) => {
  if (!document.querySelector("#main .lead, .lead")) return;
  window.usable = performance.now();
  observer.disconnect();
}).observe(document, { childList: true, subtree: true });
"""
ENTRIES = "() => performance.getEntries().filter((e) => 'transferSize' in e).map((e) => [e.name, e.transferSize])"
LINKS = """() => [...document.querySelectorAll("a[href^='/']")].map((link) => link.getAttribute("href"))"""


def load(browser: Any, address: str) -> dict[str, float]:
    """One load of the start view with an empty cache."""
    context = browser.new_context()
    page = context.new_page()
    page.add_init_script(NOTES_WHEN_USABLE)
    tools = context.new_cdp_session(page)
    tools.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto(address)
    page.wait_for_function("() => window.usable", timeout=120_000)
    page.wait_for_load_state("networkidle")
    sizes = page.evaluate(ENTRIES)
    usable = page.evaluate("() => window.usable") / 1000
    metrics = {metric["name"]: metric["value"] for metric in tools.send("Performance.getMetrics")["metrics"]}
    context.close()
    fonts = sum(size for name, size in sizes if name.endswith(".woff2"))
    total = sum(size for _, size in sizes)
    return {
        "requests": len(sizes),
        "bytes": total - fonts,
        "font_bytes": fonts,
        "usable_s": round(usable, 3),
        "cpu_s": round(metrics["TaskDuration"], 3),
    }


def views(page: Any, address: str) -> list[str]:
    """An address of each kind of view, found by following links."""
    found = ["/", "/view/bridge", "/view/map", "/view/ask", "/view/health", "/view/nothing"]
    page.goto(address)
    page.wait_for_load_state("networkidle")
    queue = page.evaluate(LINKS)
    kinds: set[str] = set()
    for _ in range(8):
        for link in queue:
            kind = "search" if link.startswith("/?q=") else "/".join(link.split("/")[:3])
            if (kind == "search" or kind in ("/view/passage", "/view/document", "/view/concept")) and kind not in kinds:
                kinds.add(kind)
                found.append(link)
        if len(kinds) == 4:
            break
        page.goto(address + found[-1])
        page.wait_for_load_state("networkidle")
        queue = page.evaluate(LINKS)
    return found


def violations(browser: Any, address: str, axe: Path) -> dict[str, list[str]]:
    """The rules that a view breaks, by scheme and view."""
    broken = {}
    for scheme in ("light", "dark"):
        context = browser.new_context(color_scheme=scheme, viewport={"width": 1280, "height": 900})
        page = context.new_page()
        page.set_default_timeout(120_000)
        for view in views(page, address):
            page.goto(address + view)
            page.wait_for_load_state("networkidle")
            page.evaluate(axe.read_text(encoding="utf-8"))
            report = page.evaluate("() => axe.run().then((report) => report.violations)")
            broken[f"{scheme} {view}"] = [f"{one['id']}: {one['nodes'][0]['html'][:160]}" for one in report]
        context.close()
    return broken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address")
    parser.add_argument("--loads", type=int, default=7)
    parser.add_argument("--axe", type=Path)
    options = parser.parse_args()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        loads = [load(browser, options.address) for _ in range(options.loads)]
        times = {name: sorted(one[name] for one in loads) for name in ("usable_s", "cpu_s")}
        print(json.dumps({**loads[-1], **times}))
        if options.axe:
            broken = violations(browser, options.address, options.axe)
            print(
                json.dumps({"views": len(broken), "broken": {view: rules for view, rules in broken.items() if rules}})
            )
            print("\n".join(broken))
        browser.close()


if __name__ == "__main__":
    main()
