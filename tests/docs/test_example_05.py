"""The example of deployed kernels does what its README says: two models, their kernels, one score."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "05_deployed"
QUICK = (
    "--run=--num-trials 1 --iterations 10 --threads 1",
    "--bench=--modes eager --rounds 1 --blocks 3 --steps 4 --threads 1 --sample-time 5ms --device cpu",
)


@pytest.mark.full
def test_both_models_are_right_and_their_kernels_answer(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="its models are measured")
    environment = {**os.environ, "LAYERS": "1", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, str(EXAMPLE / "deployed.py"), "--out", str(tmp_path), *QUICK]

    done = subprocess.run(
        command, capture_output=True, text=True, timeout=900, check=False, env=environment
    )

    assert done.returncode == 0, done.stdout + done.stderr
    for model, solutions, norms in (("llama", 2, 2), ("mixtral", 1, 3)):
        report = json.loads((tmp_path / f"{model}.json").read_text())["model"]
        (eager,) = report["modes"]
        assert (eager["status"], eager["why"]) == ("passed", "")
        assert eager["quality"]["is_accepted"]
        uses = eager["use"]["solutions"]
        assert len(uses) == solutions
        assert {use["kind"] for use in uses} == {"kernel"}
        answered = {use["definition"]: use["answered"] for use in uses}["rmsnorm_h128_f32"]
        assert answered == {"prefill": norms, "decode": norms}
        assert all(phase["predicted"] for phase in eager["phases"])
    assert re.search(r"^deployed: 1", done.stdout, re.MULTILINE)


def test_the_readmes_options_are_the_scripts() -> None:
    readme = (EXAMPLE / "README.md").read_text()
    script = (EXAMPLE / "deployed.py").read_text()

    for option in re.findall(r"`(--(?:real|run|bench))`", readme):
        assert f'"{option}"' in script
