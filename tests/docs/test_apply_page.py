"""The page about apply, followed block by block by a new user."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "apply.md"
BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def run(command: list[str], folder: Path) -> None:
    commands = Path(sys.executable).parent
    environment = {
        **os.environ,
        "PATH": f"{commands}:{os.environ['PATH']}",
        "FIB_CACHE_PATH": str(folder / "cache"),
    }
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


def test_every_block_of_the_page_runs(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the page applies solutions")
    blocks = BLOCK.findall(PAGE.read_text())
    script = []

    for language, info, content in blocks:
        if "file=" in info:
            (tmp_path / info.partition("file=")[2].strip()).write_text(content)
        elif language == "bash":
            run(["bash", "-ec", content], tmp_path)
        else:
            script.append(content)
    (tmp_path / "rest.py").write_text("".join(script))
    run([sys.executable, "rest.py"], tmp_path)

    assert {language for language, _, _ in blocks} == {"python", "bash"}
    assert len(script) == 4
