"""`generate` against an endpoint that answers what was written beforehand; kernels are judged for real."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from flashinfer_bench.cli.document_schemas import document_schema
from flashinfer_bench.cli.main import cli
from flashinfer_bench.data import TraceSet
from tests.flow.kernels import write_dataset
from tests.flow.scripted_model import ScriptedModel, scripted_model
from tests.golden.test_document_schemas import faults

pytest.importorskip("torch", reason="kernels are judged")
pytest.importorskip("httpx2", reason="the extra [agents] is not installed")

KEY = "sk-secret-7f3a9"
SIZES = (100, 200, 300, 400)
TALK = "Here is my kernel, which I am proud of."
QUICK = ("--iterations", "5", "--warmup-runs", "1", "--threads", "1", "--device", "cpu")


def kernel(body: str) -> str:
    return f"{TALK}\n```python\ndef run(x):\n    {body}\n```\n"


WRONG = kernel("return x + 2")
RIGHT = kernel("return x + 1")
ENVIRONMENT = """\
    import os, pathlib
    found = " ".join(os.environ) + " ".join(os.environ.values())
    for each in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try: found += each.read_text(errors="replace")
        except OSError: pass
    assert "secret" not in found, "the key: sk-" + "secret"
    return x + 1"""


def command(model: ScriptedModel, dataset: Path, *options: str) -> list[str]:
    return [
        *(sys.executable, "-m", "flashinfer_bench", "generate", "increment", "--json"),
        *("--local", str(dataset), "--endpoint", model.url, "--model", "scripted/one"),
        *(*QUICK, *options),
    ]


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "FIB_ENDPOINT_KEY": KEY, "FIB_CACHE_PATH": str(folder / "cache")}


def generated(model: ScriptedModel, folder: Path, *options: str) -> dict[str, Any]:
    """Run the command to its end; its document, which is what its schema says."""
    done = subprocess.run(
        command(model, folder / "dataset", *options),
        env=environment(folder),
        capture_output=True,
        text=True,
        check=False,
    )
    (folder / "said.txt").write_text(done.stdout + done.stderr)
    document: dict[str, Any] = json.loads(done.stdout)
    schema = document_schema("error" if "error" in document else "generate")
    assert list(faults(document, schema, schema, "generate")) == []
    assert document["exit_code"] == done.returncode
    return document


def test_the_third_round_passes_and_its_traces_say_where_it_came_from(tmp_path: Path) -> None:
    write_dataset(tmp_path / "dataset", sizes=SIZES)

    with scripted_model([TALK, WRONG, kernel(ENVIRONMENT.lstrip())]) as model:
        prices = ("--usd-per-million-tokens", "3,15")
        document = generated(model, tmp_path, "--rounds", "3", *prices)

    report = document["generate"]
    verdicts = [each["verdict"] for each in report["candidates"]]
    assert (document["exit_code"], verdicts) == (0, ["no_kernel", "failed", "accepted"])
    kept = TraceSet.from_path(tmp_path / "dataset")
    (solution,) = kept.solutions["increment"]
    assert solution.name == report["best"]
    traces = [each for each in kept.traces["increment"] if each.evaluation]
    assert {each.workload.axes["n"] for each in traces} == set(SIZES)
    (info,) = {each.evaluation.provenance.generated.to_json() for each in traces}
    said = json.loads(info)
    assert said["model"] == "scripted/one"
    assert said["parent"] == report["candidates"][1]["solution_hash"]
    assert (said["prompt_tokens"], said["completion_tokens"], said["round"]) == (3000, 300, 3)
    assert said["device_s"] > 0
    assert said["cost_usd"] == report["cost_usd"] == pytest.approx(0.0135)
    shown = CliRunner().invoke(cli, ["show", report["best"], "--local", str(tmp_path / "dataset")])
    assert "scripted/one at http://127.0.0.1" in shown.stdout
    assert "$0.013" in shown.stdout
    assert "mismatches" in model.bodies[2]["messages"][1]["content"]


def test_a_key_goes_to_the_endpoint_and_nowhere_else(tmp_path: Path) -> None:
    write_dataset(tmp_path / "dataset", sizes=SIZES)

    with scripted_model([kernel(ENVIRONMENT.lstrip()), RIGHT + KEY, 401]) as model:
        generated(model, tmp_path, "--rounds", "3", "--width", "1")

    files = [each for each in tmp_path.rglob("*") if each.is_file()]
    found = [each for each in files if KEY.encode() in each.read_bytes()]
    assert set(model.keys) == {f"Bearer {KEY}"}
    assert found == []
    assert "[key]" in (tmp_path / "said.txt").read_text()
    assert [each for each in files if each.parent.name == "transcripts"]


def test_what_only_fits_the_workloads_shown_is_refused(tmp_path: Path) -> None:
    write_dataset(tmp_path / "dataset", sizes=SIZES)
    asked: list[str] = []

    with scripted_model([WRONG]) as model:
        generated(model, tmp_path, "--rounds", "1")
        asked.append(model.bodies[0]["messages"][1]["content"])
    shown = [size for size in SIZES if f'{{"n": {size}}}' in asked[0]]
    fitted = kernel(f"return x + (1 if len(x) in {shown} else 2)")
    with scripted_model([fitted]) as model:
        document = generated(model, tmp_path, "--rounds", "1")

    (candidate,) = document["generate"]["candidates"]
    assert len(shown) == 2
    assert (document["exit_code"], candidate["verdict"]) == (1, "refused")
    assert (candidate["visible_passed"], candidate["held_out_passed"]) == (2, 0)
    assert not TraceSet.from_path(tmp_path / "dataset").solutions.get("increment")


@pytest.mark.full  # as above, with one workload
def test_of_few_workloads_other_sizes_are_drawn(tmp_path: Path) -> None:
    write_dataset(tmp_path / "dataset", sizes=(1000,))

    with scripted_model([kernel("return x + (1 if len(x) == 1000 else 2)"), RIGHT]) as model:
        document = generated(model, tmp_path, "--rounds", "2")

    verdicts = [each["verdict"] for each in document["generate"]["candidates"]]
    assert verdicts == ["refused", "accepted"]
    assert document["generate"]["is_drawn"]


def test_a_budget_of_tokens_ends_the_search(tmp_path: Path) -> None:
    write_dataset(tmp_path / "dataset", sizes=SIZES)

    with scripted_model([WRONG]) as model:
        document = generated(
            model, tmp_path, "--rounds", "9", "--width", "4", "--most-tokens", "2000"
        )

    assert len(model.bodies) == 2
    assert document["generate"]["ended_by"] == "budget"


def test_ctrl_c_keeps_what_was_accepted(tmp_path: Path) -> None:
    write_dataset(tmp_path / "dataset", sizes=SIZES)
    slow = kernel("import time; time.sleep(60); return x")

    with scripted_model([RIGHT, slow]) as model:
        process = subprocess.Popen(
            command(model, tmp_path / "dataset", "--rounds", "2"),
            env=environment(tmp_path),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        until_s = time.monotonic() + 120
        while len(model.bodies) < 2 and time.monotonic() < until_s:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        stdout, _ = process.communicate(timeout=60)

    document = json.loads(stdout)
    assert "generate" in document, document
    report = document["generate"]
    assert (process.returncode, report["ended_by"]) == (130, "interrupted")
    assert [each["verdict"] for each in report["candidates"]] == ["accepted"]
    assert TraceSet.from_path(tmp_path / "dataset").get_solution(report["best"]) is not None
