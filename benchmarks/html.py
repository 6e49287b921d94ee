"""How long `flashinfer-bench report html` takes on 10,000 traces, and its first page in a browser.

    python benchmarks/html.py [FOLDER]

Writing, the whole process with its start, is held against `report summary --json` on the same dataset in a fresh
process: both read every trace. The first page, from the address to the moment when it answers to keys, is held
against an empty page in the same headless Chromium. Measurements alternate; medians are compared. Bars: 10 s for
writing, 1 s for the page.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from generate_traces import generate

if TYPE_CHECKING:
    from playwright.sync_api import Browser

TRACES = 10_000
WRITES, LOADS = 3, 9
WRITE_BAR_S, LOAD_BAR_S = 10.0, 1.0
PROGRAM = Path(sys.executable).with_name("flashinfer-bench")
EMPTY = (
    "<!doctype html><html lang='en'><title>empty</title>"
    "<script>document.documentElement.dataset.ready = ''</script>"
)


def command_s(*arguments: str) -> float:
    """Time a command from start to end."""
    start = time.perf_counter()
    subprocess.run([str(PROGRAM), "report", *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def page_s(browser: Browser, address: str) -> float:
    """Time a page from its address to the moment when it is ready, in a window of its own."""
    page = browser.new_page()
    start = time.perf_counter()
    page.goto(address)
    page.wait_for_selector("html[data-ready]", state="attached")
    seconds = time.perf_counter() - start
    page.close()
    return seconds


def written(dataset: Path, site: Path) -> bool:
    """Compare writing with summing up."""
    summing, writing = [], []
    for _ in range(WRITES):
        summing.append(command_s("summary", "--json", "--local", str(dataset)))
        shutil.rmtree(site, ignore_errors=True)
        writing.append(command_s("html", str(site), "--local", str(dataset)))
    yardstick_s, write_s = statistics.median(summing), statistics.median(writing)
    files = [path.stat().st_size for path in site.rglob("*") if path.is_file()]
    size = f"{len(files):,} files, {sum(files) / 1e6:.0f} MB"
    print(f"report summary --json: {yardstick_s:.2f} s")
    print(
        f"report html ({size}): {write_s:.2f} s = {write_s / yardstick_s:.1f} x (bar {WRITE_BAR_S:g} s)"
    )
    return write_s <= WRITE_BAR_S


def shown(site: Path) -> bool:
    """Compare the first page with an empty one."""
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or sys.exit("no Chromium here: apt-get install chromium")
    empty = site.with_name("empty.html")
    empty.write_text(EMPTY, encoding="utf-8")
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    nothing, first = [], []
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=program, args=arguments)
        for _ in range(LOADS):
            nothing.append(page_s(browser, empty.as_uri()))
            first.append(page_s(browser, (site / "index.html").as_uri()))
        browser.close()
    yardstick_s, load_s = statistics.median(nothing), statistics.median(first)
    print(f"an empty page: {yardstick_s:.3f} s")
    print(f"the first page: {load_s:.3f} s = {load_s / yardstick_s:.1f} x (bar {LOAD_BAR_S:g} s)")
    return load_s <= LOAD_BAR_S


def main() -> int:
    """Measure both; exit with 1 above a bar."""
    with tempfile.TemporaryDirectory(prefix="html-") as folder:
        dataset = (
            Path(sys.argv[1]) if len(sys.argv) > 1 else generate(Path(folder) / "dataset", TRACES)
        )
        site = Path(folder) / "site"
        is_quick = written(dataset, site)
        return int(not (shown(site) and is_quick))


if __name__ == "__main__":
    sys.exit(main())
