"""What the real FlashInfer compiled for a solution: the solution's next process finds it, wherever its folder is.

Its own compiling is asked for a small C++ module; it looks up nvcc's version, and empty libraries stand for CUDA's.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from flashinfer_bench.bench.parent import build_copies
from tests.flow.kernels import HONEST, solution

if TYPE_CHECKING:
    from pathlib import Path

    from flashinfer_bench.bench.parent.build_copies import BuildCopy

pytest.importorskip("flashinfer", reason="flashinfer-python==0.6.8 is not installed")
pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(shutil.which("nvcc") is None, reason="FlashInfer asks nvcc for its version"),
]

PROGRAM = """
import sys
from pathlib import Path
from flashinfer.jit.core import gen_jit_spec
spec = gen_jit_spec("small", [Path(sys.argv[1])])
spec.load = lambda path: path  # its own loading asks for an operator
print(spec.build_and_load())
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Libraries that hold nothing where CUDA's would be, and an architecture to compile for."""
    for name in ("cudart", "cuda"):
        library = tmp_path / f"lib{name}.so"
        subprocess.run(["cc", "-shared", "-xc", os.devnull, "-o", library], check=True)
    more = {"LIBRARY_PATH": str(tmp_path), "FLASHINFER_CUDA_ARCH_LIST": "9.0a"}
    return {**os.environ, **more}


def compiled(source: Path, copy: BuildCopy, environment: dict[str, str]) -> str:
    """Have the library compile in a process of a solution; gives where the module lies."""
    home = copy.folder / "home"
    home.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, source],
        env={**environment, "HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def test_a_process_with_another_folder_builds_in_its_own(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    source, cache, mine = tmp_path / "small.cc", tmp_path / "cache", solution(HONEST)
    source.write_text('extern "C" int one() { return 1; }\n')
    first = build_copies.take(cache, mine)
    compiled(source, first, environment)
    first.keep()
    second = build_copies.take(cache, mine)
    first.discard()
    first.root.write_text("closed to others, as the sandbox closes it")

    found = compiled(source, second, environment)

    assert second.root != first.root
    assert found.startswith(str(second.folder))
