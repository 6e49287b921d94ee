"""FlashInfer's kernels pass as baselines of definitions in the published form, on a card, with legal inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from flashinfer_bench.data import TraceSet
from tests.commands import call
from tests.published_definitions import NAMES, write

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("flashinfer", reason="flashinfer-python==0.6.8 is not installed")
pytestmark = [pytest.mark.gpu, pytest.mark.full]

FAMILIES = ("rmsnorm", "fused_add", "top_", "rope", "gqa_paged", "gqa_ragged", "mla_")


@pytest.mark.parametrize("family", FAMILIES)
def test_the_librarys_kernels_pass(family: str, tmp_path: Path) -> None:
    names = [each for each in NAMES if each.startswith(family)]
    write(tmp_path, names)

    made = call("init", tmp_path, "--baseline", "flashinfer")
    ran = call("run", "--local", tmp_path, "--num-trials", "1", "--iterations", "10")

    assert made.returncode == 0, made.stderr
    found = {
        name: {each.evaluation.status for each in traces if each.evaluation}
        for name, traces in TraceSet.from_path(tmp_path).traces.items()
    }
    assert found == {name: {"PASSED"} for name in names}, ran.stdout + ran.stderr
