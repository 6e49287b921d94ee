"""The models that `benchmarks/named_models.py` names, at small widths: verified, and every file and workload tried."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.named_models import MODELS, taken_apart, weak
from tests.marks import mostly_full

pytest.importorskip("transformers", reason="its models are taken apart")


@pytest.mark.parametrize("name", mostly_full(list(MODELS), "bert"))
def test_every_file_is_executed_and_wrong_kernels_are_refused_or_named(
    name: str, tmp_path: Path
) -> None:
    found = list(taken_apart([name], tmp_path, is_small=True))

    assert [title for title, *_ in found] == [
        name,
        *(f"{name}_{phase}" for phase in MODELS[name].phases),
    ]
    for title, _, report in found:
        assert not isinstance(report, str), report
        assert (report["verified"], report["equality"]) == ("pass", "bit-equal"), title
        counts = report["executed_counts"]
        files = [each for each in report["files"] if each.startswith("level_")]
        assert counts["tests"] == {"run": len(files)}
        assert counts["wrong kernels"]["refused"] > len(report["definitions"])
        marked = {each.partition(" a kernel passes")[0] for each in weak(report)}
        assert len(marked) == counts["workloads"].get("marked", 0)
        assert not {"too large", "not run"} & counts["workloads"].keys()


def test_a_model_that_needs_values_has_variable_axes(tmp_path: Path) -> None:
    ((_, _, report),) = taken_apart(["bert"], tmp_path, is_small=True, is_verified=False)

    assert not isinstance(report, str)
    assert report["front_end"] == "real"
    tree = json.loads((tmp_path / "decomposed/bert/decomposition_tree.json").read_text())
    assert tree["metadata"]["axes"] == {"batch_size": 2, "seq_len": 32}
