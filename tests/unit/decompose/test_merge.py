from __future__ import annotations

import json
from pathlib import Path

import pytest

from flashinfer_bench.data import (
    AxisVar,
    BuildSpec,
    Definition,
    KernelReference,
    KernelUse,
    Profile,
    RandomInput,
    Solution,
    SourceFile,
    TensorSpec,
    Trace,
    TraceSet,
    Workload,
    save_json_file,
    save_jsonl_file,
)
from flashinfer_bench.data.distributions import Normal
from flashinfer_bench.data.folders import unpack
from flashinfer_bench.data.layout import Layout
from flashinfer_bench.data.rules import Level, check, take
from flashinfer_bench.data.workload import WorkloadTolerance, uuid_of
from flashinfer_bench.decompose.catalogue import identity_tag
from flashinfer_bench.decompose.merge import DICTIONARY, merge


def _dataset(  # one kernel of one model
    root: Path,
    model: str,
    *,
    identity: str = "a" * 16,
    axis: str = "rows",
    size: int = 4,
    count: int = 1,
    scale: float | None = None,
) -> Path:
    layout = Layout(root)
    code = "import torch\n\n\ndef run(x):\n    return torch.relu(x)\n"
    definition = Definition(
        name="relu_f32",
        op_type="relu",
        description="relu",
        tags=[f"model:{model}", identity_tag(identity)],
        axes={axis: AxisVar(type="var", description="length")},
        inputs={"x": TensorSpec(shape=[axis], dtype="float32", description="x")},
        outputs={"output": TensorSpec(shape=[axis], dtype="float32", description="y")},
        reference=code,
    )
    drawn = None if scale is None else Normal(type="normal", std=scale)
    inputs = {"x": RandomInput(type="random", distribution=drawn)}
    workload = Workload(
        axes={axis: size}, inputs=inputs, uuid=uuid_of("relu_f32", {axis: size}, inputs)
    )
    spec = BuildSpec(
        language="python",
        target_hardware=["cpu"],
        entry_point="main.py::run",
        destination_passing_style=False,
    )
    sources = [SourceFile(path="main.py", content=code)]
    solution = Solution(
        name="relu_f32_baseline",
        definition="relu_f32",
        author="baseline",
        spec=spec,
        sources=sources,
    )
    reference = KernelReference(
        definition="relu_f32", axes={axis: size}, workload=workload.uuid if scale else None
    )
    use = KernelUse(kernel=reference, count=count)
    save_json_file(definition, layout.definition_file(definition))
    save_jsonl_file(
        [Trace(definition="relu_f32", workload=workload)], layout.workload_file(definition)
    )
    unpack(solution, layout.solution_file(solution, "relu").with_suffix(""))
    save_json_file(
        Profile(model=model, framework="PyTorch", kernels=[use]),
        layout.profiles / f"PyTorch/{model}.json",
    )
    return root


def test_the_same_kernel_of_two_models_is_one_definition_with_both_their_sources(
    tmp_path: Path,
) -> None:
    one = _dataset(tmp_path / "one", "One", axis="rows", size=4)
    two = _dataset(tmp_path / "two", "Two", axis="tokens", size=6)

    merged = merge([one, two], tmp_path / "all")

    book = TraceSet.from_path(tmp_path / "all")
    assert (merged.added, merged.shared) == (["relu_f32"], ["relu_f32"])
    assert {"model:One", "model:Two"} <= set(book.definitions["relu_f32"].tags)
    assert [each.workload.axes for each in book.workloads["relu_f32"]] == [{"rows": 4}, {"rows": 6}]


def test_marks_of_weak_workloads_and_tolerances_are_kept(tmp_path: Path) -> None:
    one = _dataset(tmp_path / "one", "One")
    [file] = (one / "workloads").rglob("*.jsonl")
    line = json.loads(file.read_text())
    line["workload"] |= {"weak": ["makes zeros", "ignores x"], "tolerance": {"rtol": 0.018}}
    file.write_text(json.dumps(line) + "\n")

    merge([one], tmp_path / "all")

    [trace] = TraceSet.from_path(tmp_path / "all").workloads["relu_f32"]
    assert trace.workload.weak == ["makes zeros", "ignores x"]
    assert trace.workload.tolerance == WorkloadTolerance(rtol=0.018)


def test_counts_are_added_up_by_model(tmp_path: Path) -> None:
    one = _dataset(tmp_path / "one", "One", count=3)
    two = _dataset(tmp_path / "two", "Two", axis="tokens", count=5)

    merge([one, two], tmp_path / "all")

    [kernel] = json.loads((tmp_path / "all" / DICTIONARY).read_text())["kernels"]
    assert (kernel["count"], kernel["models"]) == (8, {"One": 3, "Two": 5})


def test_another_kernel_of_the_same_name_gets_a_piece_of_its_identity(tmp_path: Path) -> None:
    one = _dataset(tmp_path / "one", "One")
    two = _dataset(tmp_path / "two", "Two", identity="b" * 16)

    merge([one, two], tmp_path / "all")

    book = TraceSet.from_path(tmp_path / "all")
    assert set(book.definitions) == {"relu_f32", "relu_f32_bbbbbb"}
    assert book.get_solution("relu_f32_bbbbbb_baseline") is not None


@pytest.mark.parametrize("scales", [(None, 3.0), (3.0, None), (2.0, 3.0), (3.0, 3.0)])
def test_each_profile_names_the_workload_that_its_model_has(
    scales: tuple[float | None, float | None], tmp_path: Path
) -> None:
    one = _dataset(tmp_path / "one", "One", axis="rows", scale=scales[0])
    two = _dataset(tmp_path / "two", "Two", axis="tokens", scale=scales[1])

    merge([one], tmp_path / "all")
    merge([two], tmp_path / "all")

    there = {
        each.workload.uuid: each.workload
        for each in TraceSet.from_path(tmp_path / "all").workloads["relu_f32"]
    }
    assert len(there) == len(set(scales))
    for model, scale in zip(("One", "Two"), scales, strict=True):
        profile = Profile.load(tmp_path / f"all/profiles/PyTorch/{model}.json")
        [kernel] = [use.kernel for use in profile.kernels]
        drawn = there[kernel.workload].inputs["x"].distribution
        assert (drawn.std if drawn else None) == scale


def test_merging_again_changes_no_byte(tmp_path: Path) -> None:
    one = _dataset(tmp_path / "one", "One")
    merge([one], tmp_path / "all")
    before = {path: path.read_bytes() for path in (tmp_path / "all").rglob("*") if path.is_file()}

    merged = merge([one], tmp_path / "all")

    after = {path: path.read_bytes() for path in (tmp_path / "all").rglob("*") if path.is_file()}
    assert (merged.added, merged.workloads) == ([], 0)
    assert after == before


def test_a_dictionary_is_a_clean_dataset(tmp_path: Path) -> None:
    one = _dataset(tmp_path / "one", "One")
    two = _dataset(tmp_path / "two", "Two", identity="b" * 16, axis="tokens")

    merge([one, two], tmp_path / "all")

    assert [each for each in check(take(tmp_path / "all")) if each.level is not Level.INFO] == []
