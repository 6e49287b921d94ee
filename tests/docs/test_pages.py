"""What README and docs tell people to type works as written."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def prose(page: Path) -> str:
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


PYTHON = [
    pytest.param(code, id=f"{page.name}-{index}")
    for page in PAGES
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


def test_links_between_pages_lead_somewhere() -> None:
    missing = [
        f"{page.name}: {target}"
        for page in [
            *PAGES,
            REPOSITORY / "ARCHITECTURE.md",
            *(REPOSITORY / "docs/adr").glob("*.md"),
        ]
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", prose(page))
        if not (page.parent / target).exists()
    ]

    assert not missing
