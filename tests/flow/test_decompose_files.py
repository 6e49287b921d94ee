"""What a decomposition writes: files that stand alone, compute what the model does, and are the same every time."""

from __future__ import annotations

import hashlib
import json
import os
import runpy
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch

from flashinfer_bench.data import Profile, TraceSet
from flashinfer_bench.data.rules import Level, check, take
from flashinfer_bench.decompose import emit
from flashinfer_bench.decompose.capture import capture
from flashinfer_bench.decompose.grouping import decompose_trace
from flashinfer_bench.decompose.model_file import ModelFile, load_model_file
from flashinfer_bench.decompose.module_tensors import held_tensors
from flashinfer_bench.decompose.names import tensors_in
from flashinfer_bench.decompose.verify import verify_directory
from flashinfer_bench.errors import UsageError
from tests.commands import call
from tests.marks import mostly_full

PROBLEMS = Path(__file__).parents[2] / "examples/kernelbench"
SOME = (
    "level1/33_TopK.py",
    "level1/48_CrossEntropyLoss.py",
    "level2/2_ConvTranspose2d_BatchNorm_Tanh_MaxPool_GroupNorm.py",
    "level2/9_Linear_Dropout_Softmax.py",
    "level2/16_WritesThroughViews.py",
    "level2/19_ClassifierWithFeatures.py",
    "level2/29_Autocast_Linear_GELU.py",
    "level2/36_SharedHelperNorm_Linear.py",
    "level3/12_MiniGPT.py",
    "level3/26_LSTM.py",
    "level3/36_SparseMixtureOfExperts.py",
    "level3/43_CachedDecoding.py",
)


def _written(file: str, folder: Path, *levels: Any) -> emit.WrittenDataset:
    source = load_model_file(PROBLEMS / file)
    captured = capture(source)
    return emit.write(
        source, captured, decompose_trace(captured.trace), folder, levels or ("kernel",)
    )


@pytest.fixture(
    scope="module",
    params=mostly_full(
        SOME,
        *(SOME[0], "level2/16_WritesThroughViews.py", "level2/36_SharedHelperNorm_Linear.py"),
        *("level3/12_MiniGPT.py", "level3/43_CachedDecoding.py"),
    ),
)
def decomposition(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("decomposed") / Path(request.param).stem
    return _written(request.param, folder).directory


@pytest.fixture(scope="module")
def mini_gpt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("decomposed") / "gpt"
    return _written("level3/12_MiniGPT.py", folder, "kernel", "fusion").directory


def _files(folder: Path) -> list[Path]:
    return [
        path
        for path in sorted(folder.rglob("*.py"))
        if path.relative_to(folder).parts[0] != "dataset"
    ]


def _tree(folder: Path) -> dict[str, Any]:
    tree: dict[str, Any] = json.loads((folder / "decomposition_tree.json").read_text())
    return tree


def _original(folder: Path) -> ModelFile:
    return load_model_file(folder / "original.py")


def _given(
    source: ModelFile, node: dict[str, Any]
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The root's inputs and outputs in a real run."""
    model, inputs = source.build("cpu", 0), source.inputs("cpu", 0)
    held = {
        name: each.tensor
        for each in held_tensors(model).values()
        for name in (each.name, *each.aliases)
    }
    activations = tensors_in(source.inputs("cpu", 0))
    bindings = node["instances"][0]["bindings"]
    weights = {
        each["name"]: held[bindings[each["name"]]].clone()
        for each in node["inputs"]
        if each["kind"] == "weight"
    }
    given = [weights.get(each["name"]) for each in node["inputs"]]
    torch.manual_seed(1)
    with torch.no_grad():
        outputs = list({id(each): each for each in tensors_in(model(*inputs))}.values())
    return [next(activations) if each is None else each for each in given], outputs


def test_every_file_passes_its_own_test(decomposition: Path) -> None:
    files = [path for path in _files(decomposition) if path.parent != decomposition]

    for path in files:
        runpy.run_path(str(path))["run_tests"]()

    assert files


def test_the_root_and_both_sides_of_its_split_compute_what_the_model_does(
    decomposition: Path,
) -> None:
    tree = _tree(decomposition)
    root = next(node for node in tree["nodes"] if node["id"] == tree["root"])
    given, expected = _given(_original(decomposition), root)
    files = [decomposition / root["file"], *sorted(decomposition.glob("steps/step_1_*/*.py"))]

    for path in files:
        torch.manual_seed(1)
        with torch.no_grad():
            made = runpy.run_path(str(path))["Model"]()(*given)
        outputs = made if isinstance(made, tuple) else (made,)

        assert all(torch.equal(one, other) for one, other in zip(outputs, expected, strict=True))


def test_nothing_but_torch_is_imported(decomposition: Path) -> None:
    lines = [
        line
        for path in _files(decomposition)
        if path.parent != decomposition
        for line in path.read_text().splitlines()
        if line.startswith(("import ", "from "))
    ]

    assert set(lines) <= {"import torch", "import torch.nn.functional as F", "from torch import nn"}


def test_the_dataset_is_clean(decomposition: Path) -> None:
    findings = check(take(decomposition / "dataset"))

    assert [each for each in findings if each.level is not Level.INFO] == []


def test_the_profile_counts_every_call_of_every_kernel_in_the_dataset(decomposition: Path) -> None:
    tree = _tree(decomposition)
    counted = {n["id"]: n["instance_count"] for n in tree["nodes"] if n["level"] == 0}
    [file] = (decomposition / "dataset/profiles/PyTorch").glob("*.json")

    uses: dict[str, int] = {}
    for use in Profile.load(file).kernels:
        name = getattr(use.kernel, "definition", "")
        uses[name] = uses.get(name, 0) + use.count

    known = TraceSet.from_path(decomposition / "dataset").definitions
    assert uses == {name: count for name, count in counted.items() if name in known}


def test_every_operation_has_one_owner(decomposition: Path) -> None:
    tree = _tree(decomposition)
    leaves = [node for node in tree["nodes"] if not node["children"]]

    owned = [op for node in leaves for each in node["instances"] for op in each["operations"]]

    assert len(owned) == len(set(owned))


def test_a_file_says_fail_and_exits_with_1_when_its_work_is_changed(
    mini_gpt: Path, tmp_path: Path
) -> None:
    text = (mini_gpt / "level_0_kernel/layer_norm_96_f32.py").read_text()
    broken = tmp_path / "broken.py"
    broken.write_text(
        text.replace("return F.layer_norm", "x.zero_()\n        return 0 * F.layer_norm")
    )

    done = subprocess.run(
        [sys.executable, str(broken)], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout) == (1, "FAIL: input 0 was changed\n")


@pytest.mark.full
def test_a_file_says_pass_and_exits_with_0(mini_gpt: Path) -> None:
    file = mini_gpt / "level_3_model/m12_mini_gpt.py"

    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, "PASS\n")


def test_equal_blocks_are_one_piece_with_bindings_of_their_own(mini_gpt: Path) -> None:
    block = next(node for node in _tree(mini_gpt)["nodes"] if node["name"] == "Block")

    weights = [each["bindings"]["attention_qkv_weight"] for each in block["instances"]]

    assert weights == [f"blocks.{number}.attention.qkv.weight" for number in range(3)]


def test_levels_that_are_asked_for_become_definitions(mini_gpt: Path) -> None:
    definitions = TraceSet.from_path(mini_gpt / "dataset").definitions.values()

    levels = {tag for each in definitions for tag in each.tags if tag.startswith("level:")}

    assert levels == {"level:kernel", "level:fusion"}


def test_every_edge_of_the_data_flow_ends_at_ports_there_are(mini_gpt: Path) -> None:
    tree = _tree(mini_gpt)
    nodes = {node["id"]: node for node in tree["nodes"]}

    for edge in tree["data_flow"]:
        parent = nodes[edge["parent"]]
        source, target = edge["source"], edge["target"]
        maker = parent if source["call"] is None else nodes[parent["children"][source["call"]]]
        reader = parent if target["call"] is None else nodes[parent["children"][target["call"]]]
        made = maker["inputs"] if source["call"] is None else maker["outputs"]
        read = reader["outputs"] if target["call"] is None else reader["inputs"]

        assert source["port"] in [port["name"] for port in made]
        assert target["port"] in [port["name"] for port in read]


@pytest.mark.parametrize(
    "file",
    mostly_full(
        ["level2/36_SharedHelperNorm_Linear.py", "level3/36_SparseMixtureOfExperts.py"],
        "level2/36_SharedHelperNorm_Linear.py",
    ),
)
def test_two_processes_with_other_hash_seeds_write_the_same_bytes(
    tmp_path: Path, file: str
) -> None:
    program = (
        "import sys; from tests.flow.test_decompose_files import _written; from pathlib import Path; "
        f"_written({file!r}, Path(sys.argv[1]), 'kernel', 'fusion', 'layer')"
    )
    for seed in ("1", "2"):
        environment = {
            **os.environ,
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": str(Path(__file__).parents[2]),
        }
        subprocess.run(
            [sys.executable, "-c", program, str(tmp_path / seed)], env=environment, check=True
        )

    first, second = (_digest(tmp_path / seed) for seed in ("1", "2"))

    assert first == second


def _digest(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def _without_export(rungs: list[dict[str, str]]) -> list[dict[str, str]]:
    """Rungs without what torch.export says beside them: it may fail in one process and not in another."""
    return [each | {"detail": each["detail"].partition("; torch.export")[0]} for each in rungs]


def test_what_the_verification_found_lies_beside_the_pieces_and_is_printed_and_found_again(
    tmp_path: Path,
) -> None:
    file = PROBLEMS / "level1/33_TopK.py"

    printed = json.loads(call("decompose", file, "--output", tmp_path, "--json").stdout)
    kept = json.loads((tmp_path / "33_TopK/verification/summary.json").read_text())
    again = verify_directory(tmp_path / "33_TopK")

    found = printed["decomposition"]
    assert "verification/summary.json" in found["files"]
    assert kept["passed"] is (found["verified"] == "pass") is True
    assert kept["coverage"]["operations"] == found["operations"]
    assert _without_export(kept["rungs"]) == _without_export([asdict(each) for each in again.rungs])
    assert not {"folder", "elapsed_s"} & set(kept)


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")

    with pytest.raises(UsageError, match="holds other files"):
        _written("level1/33_TopK.py", tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.full
def test_a_place_that_cannot_be_written_is_the_machines_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    file = PROBLEMS / "level1/33_TopK.py"

    done = call("decompose", file, "--output", tmp_path / "file")

    assert done.returncode == 4, done.stderr
    assert f"cannot write {tmp_path / 'file'}" in done.stderr


def test_an_earlier_decomposition_is_replaced_as_a_whole(tmp_path: Path) -> None:
    _written("level2/16_WritesThroughViews.py", tmp_path / "out")

    again = _written("level1/33_TopK.py", tmp_path / "out")

    there = {
        str(path.relative_to(again.directory))
        for path in again.directory.rglob("*")
        if path.is_file()
    }
    assert there == set(again.files)


def test_helper_modules_lie_beside_the_copy_of_the_file(tmp_path: Path) -> None:
    written = _written("level2/36_SharedHelperNorm_Linear.py", tmp_path / "out")

    assert "shared_layers.py" in written.files


def test_the_baselines_of_a_dataset_pass_a_run(tmp_path: Path) -> None:
    written = _written("level1/33_TopK.py", tmp_path / "out")
    quick = ("--warmup-runs", "0", "--iterations", "1", "--num-trials", "1", "--no-audit")

    done = call("run", "--local", written.directory / "dataset", *quick)

    assert (done.returncode, "1 of 1 job passed" in done.stdout) == (0, True)
