"""What a clock puts onto a card, as far as it can be looked at without one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="clocks time kernels")
triton = pytest.importorskip("triton", reason="it brings an assembler")

from flashinfer_bench.bench.timing.device_work import SPIN_PTX  # noqa: E402  # needs torch

ASSEMBLER = Path(triton.__file__).parent / "backends/nvidia/bin/ptxas"


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_90a"])
def test_nvidias_assembler_takes_the_spin_kernel(arch: str, tmp_path: Path) -> None:
    source = tmp_path / "spin.ptx"
    source.write_text(SPIN_PTX)

    command = [ASSEMBLER, f"--gpu-name={arch}", "-o", tmp_path / "spin.cubin", source]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)

    assert ended.returncode == 0, ended.stderr
