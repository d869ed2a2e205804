"""Formulas as the page draws them above what TeX makes of them, as pictures to be judged by eye."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
from PIL import Image

from lemmata.server.mathml import formula_html

PAGE = Path(__file__).parents[1] / "src" / "lemmata" / "server" / "page"
PREAMBLE = r"""\documentclass[border=4pt,multi=shown,varwidth=22cm]{standalone}
\usepackage{amsmath,amssymb,mathtools,mathrsfs,stmaryrd,bm}\usepackage[all]{xy}\usepackage{tikz-cd}
\newenvironment{shown}{}{}\begin{document}
"""
ROWS = 20  # formulas of a picture
HEIGHT = 48  # pixels to which both are scaled before they are compared


def make_sheet(sample: list[str], folder: Path) -> None:
    """Pictures of ROWS formulas each, and the likeness of each pair."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    ours, theirs = page_pictures(sample, folder), tex_pictures(sample, folder)
    pairs = [(text, ours[place], theirs[place]) for place, text in enumerate(sample) if place in theirs]
    likenesses = [likeness(one, other) for _, one, other in pairs]
    for start in range(0, len(pairs), ROWS):
        picture(pairs[start : start + ROWS], likenesses[start:], start).save(folder / f"sheet-{start // ROWS + 1}.png")
    record = {
        "formulas": len(sample),
        "compiled": len(pairs),
        "likeness": {str(share): round(float(np.quantile(likenesses, share)), 3) for share in (0.1, 0.25, 0.5, 0.75)},
    }
    order = sorted(range(len(pairs)), key=likenesses.__getitem__)
    listed = [{"number": place, "likeness": round(likenesses[place], 3), "latex": pairs[place][0]} for place in order]
    (folder / "likeness.json").write_text(json.dumps({**record, "pairs": listed}, indent=1), encoding="utf-8")
    print(json.dumps(record))


def page_pictures(sample: list[str], folder: Path) -> list[Image.Image]:
    """Screenshots of formulas with the style and the font of the page."""
    from playwright.sync_api import sync_playwright

    rows = "".join(
        f'<p class="math text"><span class="display">{formula_html(text, True)}</span></p>' for text in sample
    )
    for name in ("page.css", "stix-two-math.woff2"):
        shutil.copy(PAGE / name, folder)
    head = '<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="page.css">'
    body = f'<body style="background:#fff;width:1400px">{rows}</body>'
    (folder / "page.html").write_text(f'{head}<html data-theme="light">{body}</html>', encoding="utf-8")
    pictures = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1500, "height": 900}, device_scale_factor=2)
        page.goto((folder / "page.html").absolute().as_uri())
        page.evaluate("() => document.fonts.ready.then(() => 0)")
        for place, shown in enumerate(page.locator(".display").all()):
            path = folder / f"ours-{place}.png"
            shown.screenshot(path=str(path))
            pictures.append(cropped(Image.open(path)))
            path.unlink()
        browser.close()
    return pictures


def tex_pictures(sample: list[str], folder: Path) -> dict[int, Image.Image]:
    """Pages that pdflatex makes in one run, by place; formulas with an error are left out."""
    import pypdfium2

    pages = []
    for place, text in enumerate(sample):
        is_bare = (
            "\\begin" not in text and "\\xymatrix" not in text and ("\\\\" in text or re.search(r"(?<!\\)&", text))
        )
        inner = rf"\begin{{aligned}}{text}\end{{aligned}}" if is_bare else text
        pages.append(rf"\typeout{{FORMULA {place}}}\begin{{shown}}$\displaystyle {inner}$\end{{shown}}")
    source = "\n\n".join([PREAMBLE, *pages, r"\end{document}"])
    (folder / "all.tex").write_text(source, encoding="utf-8")
    command = ["pdflatex", "-no-shell-escape", "-interaction=nonstopmode", "all.tex"]
    subprocess.run(command, cwd=folder, check=False, capture_output=True, timeout=600)
    logged = (folder / "all.log").read_text(encoding="latin-1").split("\nFORMULA ")[1:]
    without_error = [place for place, part in enumerate(logged) if "\n!" not in part]
    document = pypdfium2.PdfDocument(folder / "all.pdf")
    if len(document) != len(sample):
        raise SystemExit(f"{folder / 'all.tex'}: {len(document)} pages of {len(sample)} formulas")
    pictures = {place: cropped(document[place].render(scale=3.4).to_pil()) for place in without_error}
    document.close()
    return pictures


def cropped(picture: Image.Image) -> Image.Image:
    """A picture in shades of grey without its margins."""
    grey = picture.convert("L")
    ink = np.asarray(grey) < 160
    if not ink.any():
        return grey
    rows, columns = np.flatnonzero(ink.any(1)), np.flatnonzero(ink.any(0))
    return grey.crop((int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1))


def likeness(one: Image.Image, other: Image.Image) -> float:
    """The share of ink in common after both were scaled to one size and blurred a little, 0 to 1."""
    width = max(1, round(other.width * HEIGHT / max(1, other.height)))
    inks = [1 - np.asarray(picture.resize((width, HEIGHT)), float) / 255 for picture in (one, other)]
    moves = [(dy, dx) for dy in (-1, 0, 1) for dx in (-2, -1, 0, 1, 2)]
    ours, theirs = (np.sum([np.roll(ink, move, (0, 1)) for move in moves], axis=0) for ink in inks)
    return float(np.minimum(ours, theirs).sum() / max(1e-9, np.maximum(ours, theirs).sum()))


def picture(pairs: list[tuple[str, Image.Image, Image.Image]], likenesses: list[float], start: int) -> Image.Image:
    """Ours on the left, TeX's on the right."""
    from PIL import ImageDraw

    heights = [max(one.height, other.height) + 26 for _, one, other in pairs]
    half = max(max(one.width, other.width) for _, one, other in pairs) + 30
    sheet = Image.new("L", (2 * half + 60, sum(heights) + 10), 255)
    draw = ImageDraw.Draw(sheet)
    top = 5
    for place, (_, one, other) in enumerate(pairs):
        sheet.paste(one, (60, top + 10))
        sheet.paste(other, (half + 60, top + 10))
        draw.text((4, top + 8), f"{start + place}\n{likenesses[place]:.2f}", fill=0)
        top += heights[place]
        draw.line((0, top, sheet.width, top), fill=210)
    return sheet
