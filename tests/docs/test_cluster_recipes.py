"""The recipes for clusters: read by what reads them, and the Slurm one played with stand-ins for its programs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import yaml

CLUSTER = Path(__file__).parents[2] / "examples/cluster"


def stand_in(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/bash\n{script}\n")
    (folder / name).chmod(0o755)


def test_the_slurm_recipe_starts_ray_on_every_node_and_the_run_on_the_first(tmp_path: Path) -> None:
    stand_in(tmp_path, "scontrol", "printf 'n1\\nn2\\nn3\\n'")
    says_address = 'if [[ "$*" == *hostname* ]]; then echo 10.0.0.1; fi'
    stand_in(tmp_path, "srun", f'{says_address}; echo "$*" >> said')
    stand_in(tmp_path, "sleep", "/bin/sleep 0.3")
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    environment |= {"SLURM_JOB_NODELIST": "n[1-3]", "SLURM_JOB_NUM_NODES": "3"}

    subprocess.run(
        ["bash", CLUSTER / "slurm.sh", "DATA", "OUT"], cwd=tmp_path, env=environment, check=True
    )

    _, head, others, run = (tmp_path / "said").read_text().splitlines()
    assert head.endswith("ray start --head --node-ip-address=10.0.0.1 --port=6379 --block")
    assert "--nodelist=n1" in head
    assert others == "--nodes=2 --exclude=n1 --overlap ray start --address=10.0.0.1:6379 --block"
    assert run.endswith(
        "env RAY_ADDRESS=10.0.0.1:6379 "
        "flashinfer-bench run --local DATA --output OUT --pool ray --resume"
    )


def test_the_kubernetes_recipe_is_read_and_its_ports_are_closed_to_others() -> None:
    parts = list(yaml.safe_load_all((CLUSTER / "kubernetes.yaml").read_text()))

    kinds = [each["kind"] for each in parts]
    assert kinds == ["Service", "Job", "StatefulSet", "NetworkPolicy"]
    policy = parts[-1]["spec"]
    assert policy["ingress"] == [{"from": [{"podSelector": policy["podSelector"]}]}]
