"""What README and docs tell people to type works as written."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from flashinfer_bench.cli.main import ORDER
from flashinfer_bench.data import Definition, Trace, pack
from tests.marks import mostly_full

REPOSITORY = Path(__file__).parents[2]
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def prose(page: Path) -> str:
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


GENERATED = {"attacks.md", "causes.md", "cli.md", "validation.md"}
WRITTEN = [
    *(page for page in PAGES if page.name not in GENERATED),
    *sorted((REPOSITORY / "docs/adr").glob("*.md")),
]
MOST_WORDS = 34_000
OTHERS = {"--check", "--directory"}  # of scripts and other programs
LINKED = [
    *PAGES,
    *(REPOSITORY / "docs/adr").glob("*.md"),
    *(REPOSITORY / "docs/measurements").glob("*.md"),
    *(REPOSITORY / "examples").rglob("README.md"),
    *(REPOSITORY / name for name in ("ARCHITECTURE.md", "CHANGELOG.md", "benchmarks/README.md")),
]
FOLLOWED = {
    "tracing.md",
    "training-recipes.md",
}  # by tests of their own, with what their programs need

LONG = {"README.md-1", "decompose.md-0"}
PYTHON = [
    pytest.param(
        code,
        id=f"{page.name}-{index}",
        marks=[pytest.mark.full] if f"{page.name}-{index}" in LONG else [],
    )
    for page in PAGES
    if page.name not in FOLLOWED
    for index, code in enumerate(blocks(page, "python"))
]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with a small dataset in `./dataset`: one definition, one workload."""
    pytest.importorskip("torch", reason="the examples run solutions")
    source = REPOSITORY / "examples" / "dataset"
    for kind in ("definitions", "workloads"):
        shutil.copytree(source / kind / "rmsnorm", tmp_path / "dataset" / kind / "rmsnorm")
    for author in ("baseline", "cpp", "pytorch"):
        place = Path("solutions", author, "rmsnorm", "rmsnorm_h4096")
        shutil.copytree(source / place, tmp_path / "dataset" / place)
    return tmp_path


@pytest.mark.parametrize("code", PYTHON)
def test_python_in_the_pages_runs(code: str, home: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=home, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr


SHELL = [block for block in blocks(REPOSITORY / "README.md", "bash") if "flashinfer-bench" in block]


@pytest.mark.parametrize("block", mostly_full(SHELL, SHELL[0]), ids=range(len(SHELL)))
def test_commands_in_the_readme_run(block: str, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the examples run solutions")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    (tmp_path / "examples").symlink_to(REPOSITORY / "examples")

    done = subprocess.run(["bash", "-ec", block], cwd=tmp_path, env=environment, check=False)

    assert len(SHELL) > 1
    assert done.returncode == 0


def test_the_makefile_has_what_the_pages_name() -> None:
    named = re.findall(
        r"(?:^|`)make ([a-z]+)", (REPOSITORY / "README.md").read_text(), re.MULTILINE
    )

    targets = re.findall(r"^([a-z]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)

    assert {"run", "test"} <= set(named) <= set(targets)


def test_the_entities_in_the_formats_page_are_valid(tmp_path: Path) -> None:
    page = REPOSITORY / "docs" / "formats.md"
    definition_text, workload_text = blocks(page, "json")
    (settings,) = blocks(page, "toml")
    (tmp_path / "solution.toml").write_text(settings)
    (tmp_path / "main.py").write_text("def run(x, alpha):\n    return x.float().sum(-1) * alpha\n")

    definition = Definition.model_validate_json(definition_text)
    trace = Trace.model_validate_json(workload_text)
    solution = pack(tmp_path)

    definition.require_workload(trace.workload)
    assert trace.definition == solution.definition == definition.name


def anchors(page: Path) -> set[str]:
    """Name a page's headings as links name them."""
    titles = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    words = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).strip().lower() for title in titles]
    return {re.sub(r"[^\w\- ]", "", each).replace(" ", "-") for each in words}


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_lead_somewhere(page: Path) -> None:
    missing = []

    for link in re.findall(r"\]\(([^)\s:]+)\)", prose(page)):
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            missing.append(link)

    assert not missing


def test_the_readme_names_every_command() -> None:
    table = (REPOSITORY / "README.md").read_text().partition("## Commands")[2]

    named = set(re.findall(r"`(?:flashinfer-bench )?([a-z-]+)", table))

    assert not set(ORDER) - named


def test_the_gate_in_ci_compares_where_a_job_did_not_pass_too() -> None:
    """A step that ends with 1 ends the workflow: no gate would be looked at, no JUnit written."""
    steps = (REPOSITORY / "docs" / "reports.md").read_text(encoding="utf-8").partition("```yaml")[2]

    (line,) = re.findall(r"flashinfer-bench run .*", steps.partition("```")[0])

    assert line.endswith(" --exit-zero")


def test_written_pages_can_be_read_in_an_evening() -> None:
    words = sum(len(page.read_text(encoding="utf-8").split()) for page in WRITTEN)

    assert words <= MOST_WORDS


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.name)
def test_every_option_that_a_page_names_exists(page: Path) -> None:
    listed = set(re.findall(r"--[a-z][a-z-]*", (REPOSITORY / "docs/cli.md").read_text()))
    shown = [text for text in re.findall(r"`([^`\n]+)`", prose(page)) if "--" in text]

    named = {option for text in shown for option in re.findall(r"(?<!\S)--[a-z][a-z-]*", text)}

    assert named - listed - OTHERS == set()
