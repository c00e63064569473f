"""Make report.png, the picture of the report in the README, and report-tall.png for phones.

``python docs/images/report.py`` needs the extra ``browser`` and Chromium.
"""

import shutil
import subprocess
import sys
import tempfile
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

WIDTH, PHONE, GAP = 1240, 390, 14


def main() -> None:
    """Run the demo, photograph parts of its report, and stack them."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, "-m", "hierlpr", "demo", "--out", folder],
            check=True,
            stdout=sys.stderr,
        )
        for name, width in (("report.png", WIDTH), ("report-tall.png", PHONE)):
            stack(photograph(Path(folder, "report.html"), width), Path(__file__).parent / name)


def stack(parts: list[Image.Image], target: Path) -> None:
    """Write the parts below each other."""
    height = sum(part.height for part in parts)
    picture = Image.new("RGB", (parts[0].width, height), "white")
    at = 0
    for part in parts:
        picture.paste(part, (0, at))
        at += part.height
    # A page has few colours: a palette keeps the text crisp and the file small.
    picture.quantize(256, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(
        target, optimize=True
    )
    print(f"{target}: {picture.width} x {picture.height}, {target.stat().st_size / 1000:.0f} kB")


def photograph(path: Path, width: int) -> list[Image.Image]:
    """Return the answer, the first figures and one sample, as a reader sees them."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        context = browser.new_context(
            viewport={"width": width, "height": 1000}, device_scale_factor=1.5
        )
        page = context.new_page()
        page.goto(path.as_uri())
        if width == PHONE:
            parts = [
                crop(page, "html", "#answer .tiles", end=GAP),
                crop(page, "#curves", "#curves figure:nth-child(1)", end=GAP),
            ]
        else:
            parts = [
                crop(page, "html", "#answer", end=-8),
                crop(page, "#curves", "#curves figure:nth-child(2)", end=GAP),
                crop(page, "#samples-title", "#samples-tree", start=-GAP, end=-820),
            ]
        browser.close()
    return parts


def crop(page: Page, first: str, last: str, *, start: float = 0, end: float = 0) -> Image.Image:
    """Return the page from the top of one element to the bottom of another."""
    whole = Image.open(BytesIO(page.screenshot(full_page=True)))
    scale = whole.width / page.viewport_size["width"]
    top = page.locator(first).bounding_box()
    bottom = page.locator(last).bounding_box()
    assert top is not None
    assert bottom is not None
    return whole.crop(
        (
            0,
            round((top["y"] + start) * scale),
            whole.width,
            round((bottom["y"] + bottom["height"] + end) * scale),
        )
    )


if __name__ == "__main__":
    main()
