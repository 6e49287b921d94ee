"""Draw the main pages of `report html`, as a browser shows them, into docs/images.

python docs/generate_screenshots.py
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.sync_api import sync_playwright

from flashinfer_bench.report.page.names import slug

if TYPE_CHECKING:
    from playwright.sync_api import Browser

DOCS = Path(__file__).parent
IMAGES = DOCS / "images"
DATASETS = (DOCS.parent / "examples" / "dataset", DOCS / "recorded")
PROGRAM = Path(sys.executable).with_name("flashinfer-bench")
LARGEST_BYTES = 150_000
WIDE, NARROW = (1280, 860), (390, 844)
MODEL = f"models/{slug('SGLang/meta-llama/Llama-3.1-8B')}.html"
SHOTS = (
    ("overview", "index.html#hw=NVIDIA+H200", WIDE, "light"),
    ("leaderboard", "leaderboard.html#hw=AMD+EPYC", WIDE, "light"),
    ("definition", "definitions/rmsnorm_h4096.html#hw=NVIDIA+H200", (1120, 840), "light"),
    ("definition-dark", "definitions/rmsnorm_h4096.html#hw=NVIDIA+H200", (1120, 780), "dark"),
    ("definition-narrow", "definitions/rmsnorm_h4096.html#hw=NVIDIA+H200", NARROW, "light"),
    ("solution-dark", "solutions/rmsnorm_h4096_in_place.html#hw=AMD+EPYC", WIDE, "dark"),
    (
        "difference",
        "solutions/rmsnorm_h4096_half.html#hw=AMD+EPYC&diff=rmsnorm_h4096_in_place",
        (1280, 620),
        "light",
    ),
    ("model", f"{MODEL}#hw=AMD+EPYC", (1280, 760), "light"),
    ("overview-narrow-dark", "index.html#hw=AMD+EPYC", NARROW, "dark"),
)


def write_site(folder: Path) -> None:
    """Write the site of the recorded traces."""
    local = [word for path in DATASETS for word in ("--local", str(path))]
    command = [str(PROGRAM), "report", "html", str(folder), *local, "--title", "FlashInfer-Bench"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def draw(browser: Browser, site: Path) -> None:
    """Draw every page; one that is too large for the repository is an error."""
    for name, address, (width, height), scheme in SHOTS:
        size = {"width": width, "height": height}
        page = browser.new_page(viewport=size, color_scheme=scheme)
        page.goto(f"{site.as_uri()}/{address}")
        page.wait_for_selector("html[data-ready]", state="attached")
        if "diff=" in address:
            page.locator(".diff").first.wait_for()
        file = IMAGES / f"{name}.png"
        page.screenshot(path=file)
        page.close()
        if file.stat().st_size > LARGEST_BYTES:
            sys.exit(f"{file} is larger than {LARGEST_BYTES} bytes")


def main() -> None:
    """Make the images anew."""
    program = shutil.which("chromium") or sys.exit("no Chromium here: apt-get install chromium")
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as running:
        site = Path(folder) / "site"
        write_site(site)
        browser = running.chromium.launch(executable_path=program, args=arguments)
        draw(browser, site)
        browser.close()


if __name__ == "__main__":
    main()
