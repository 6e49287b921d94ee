"""The page that brings a kernel in, followed word by word by a new user."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PAGE = REPOSITORY / "docs" / "bring-your-own-kernel.md"
BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def settings(info: str) -> dict[str, str]:
    return dict(word.split("=") for word in info.split())


def is_there(tool: str) -> bool:
    has_nvcc = Path("/usr/local/cuda/bin/nvcc").exists()
    return has_nvcc if tool == "nvcc" else importlib.util.find_spec(tool) is not None


def has_gpu() -> bool:
    return shutil.which("nvidia-smi") is not None


@pytest.mark.full  # its steps one by one: test_dataset_tools
def test_every_step_of_the_page_works(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the page runs solutions")
    commands = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{commands}:{os.environ['PATH']}"}
    (tmp_path / "examples").symlink_to(REPOSITORY / "examples")
    followed = []

    for _, info, content in BLOCK.findall(PAGE.read_text()):
        said = settings(info)
        if "file" in said:
            (tmp_path / said["file"]).write_text(content)
        elif is_there(said.get("needs", "torch")) and not ("exit=4" in info and has_gpu()):
            done = subprocess.run(
                ["bash", "-ec", content],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            followed.append(content)
            assert done.returncode == int(said.get("exit", 0)), content + done.stdout + done.stderr

    assert len(followed) >= 6
