"""What programs are told: examples of the pages on languages pass, and commands of docs/agents.md work."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from flashinfer_bench.agents.answers import estimate_tokens
from flashinfer_bench.agents.guides import guide
from flashinfer_bench.agents.tools import LANGUAGES
from tests.commands import call
from tests.marks import mostly_full

REPOSITORY = Path(__file__).parents[2]
BLOCK = re.compile(r"^```\w+ (file=[^\n]*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("language", mostly_full(LANGUAGES, "python"))
def test_the_example_of_a_language_passes(language: str, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the example is run")
    ((info, code),) = BLOCK.findall(guide(language))
    said = dict(word.split("=") for word in info.split())
    if importlib.util.find_spec(said.get("needs", "torch")) is None and language != "cuda":
        pytest.skip(f"{said['needs']} is not installed")
    (tmp_path / said["file"]).write_text(code)

    done = call(
        *("check", tmp_path / said["file"], "--definition", said["definition"]),
        *("--language", language, "--local", REPOSITORY / "examples/dataset"),
    )

    without_card = language == "cuda" and shutil.which("nvidia-smi") is None
    assert done.returncode == (4 if without_card else 0), done.stdout + done.stderr


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_guide_fits_an_answer(language: str) -> None:
    assert estimate_tokens(guide(language)) < 2_000


@pytest.mark.full  # its steps one by one: test_mcp, test_dataset_tools
def test_commands_of_the_page_work(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the page runs solutions")
    shutil.copytree(REPOSITORY / "examples/dataset", tmp_path / "dataset")
    page = (REPOSITORY / "docs/agents.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```bash\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"

    done = subprocess.run(
        ["bash", "-ec", block],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert '"mismatches"' in (tmp_path / "failure.json").read_text()
