"""What a verification says about layouts, written decompositions, sizes that do not fit, and numbers."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from flashinfer_bench.decompose.grouping import parse_overrides
from flashinfer_bench.decompose.model_file import load_model_file
from flashinfer_bench.decompose.pipeline import take_apart
from flashinfer_bench.decompose.verify import TooBigError, stages, verify_directory
from flashinfer_bench.decompose.verify.estimate import estimated_seconds
from flashinfer_bench.decompose.verify.originals import run_original
from flashinfer_bench.decompose.verify.parent_operations import Watcher
from flashinfer_bench.decompose.verify.sources import Draws
from flashinfer_bench.decompose.verify.values import (
    Marker,
    copied,
    error,
    is_same,
    mark,
    tolerance,
)
from flashinfer_bench.errors import UsageError

HANDMADE = Path(__file__).parents[2] / "fixtures/decompositions/tiny_transformer"
MODEL = """\
import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(64, 256), nn.Linear(256, 64)

    def forward(self, x, y):
        {body}


def get_inputs():
    return [torch.rand({rows}, 64), torch.rand({rows}, 64)]


def get_init_inputs():
    return []
"""
BODY = "return torch.softmax(self.down(F.dropout(torch.relu(self.up(x)), 0.25)) + y, -1)"


@pytest.fixture
def handmade(tmp_path: Path) -> Path:
    return Path(shutil.copytree(HANDMADE, tmp_path / "handmade"))


def written(folder: Path, body: str = BODY, rows: int = 64) -> Path:
    file = folder / "model.py"
    file.write_text(MODEL.format(body=body, rows=rows))
    take_apart(load_model_file(file)).write(folder / "out")
    return folder / "out"


def test_a_constant_that_is_nearly_right_is_named_though_the_outputs_are_within_tolerance(
    tmp_path: Path,
) -> None:
    folder = written(tmp_path, "return (self.down(torch.relu(self.up(x))) + y) * 0.1234", rows=4)
    copies = [*folder.glob("level_*/*.py"), *folder.glob("steps/*/*.py"), *folder.rglob("*.json")]
    for path in copies:
        path.write_text(path.read_text().replace("0.1234", "0.12340001"))

    report = verify_directory(folder, seeds=1)

    named = {each.file: each.message for each in report.findings}
    assert not report.passed
    assert {each.code for each in report.findings} == {"FILE-constant"}
    (kernel,) = folder.glob("level_0_kernel/mul*.py")
    said = "mul has 0.12340001 where the original has 0.1234"
    assert named == {f"level_0_kernel/{kernel.name}": said, f"dataset: {kernel.stem}": said}


PLAIN = "return torch.softmax(self.down(torch.relu(self.up(x))) + y, -1)"


def test_a_quick_verification_compares_a_smaller_copy_and_names_what_is_wrong(
    tmp_path: Path,
) -> None:
    folder = written(tmp_path, PLAIN, rows=4096)

    right = verify_directory(folder, seeds=1, quick=True)
    (kernel,) = folder.glob("level_0_kernel/softmax*.py")
    kernel.write_text(kernel.read_text().replace("softmax(x, -1)", "softmax(x * 1.001, -1)"))
    wrong = verify_directory(folder, seeds=1, quick=True)

    assert right.passed
    assert right.shrunk == "4096 to 2"
    assert "their tests and wrong kernels not run (quick)" in right.rungs[1].detail
    assert ("SHADOW-differs", f"level_0_kernel/{kernel.name}") in {
        (each.code, each.file) for each in wrong.findings
    }


def test_where_memory_ends_a_smaller_copy_is_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = written(tmp_path, PLAIN, rows=4096)

    def ended(*_: object) -> None:
        raise RuntimeError(
            "DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"
        )

    monkeypatch.setattr(stages, "run_tests", ended)

    report = verify_directory(folder, seeds=1)

    assert report.passed
    assert report.shrunk == "4096 to 2"
    assert (
        "memory ended at the sizes of the files, so this was found on a smaller copy"
        in report.notes
    )


def test_exactly_equal_is_another_verdict_than_within_tolerance(tmp_path: Path) -> None:
    folder = written(tmp_path, PLAIN, rows=4)
    (kernel,) = folder.glob("level_0_kernel/softmax*.py")
    kernel.write_text(
        kernel.read_text().replace("softmax(x, -1)", "softmax(x.double(), -1).float()")
    )

    near = verify_directory(folder, seeds=1, quick=True)
    exact = verify_directory(folder, seeds=1, quick=True, exact=True)

    assert near.equality.startswith("within tolerance")
    said = {each.message for each in exact.findings} - {each.message for each in near.findings}
    assert said
    assert all("not equal in every bit" in each for each in said)


def test_an_estimate_tells_a_long_verification_from_a_quick_one(tmp_path: Path) -> None:
    whole, quick = estimated_seconds(written(tmp_path, PLAIN, rows=1 << 20))

    assert whole > 60
    assert quick < 15


def edited(folder: Path, edit: Callable[[dict], None]) -> Path:
    path = folder / "decomposition_tree.json"
    tree = json.loads(path.read_text())
    edit(tree)
    path.write_text(json.dumps(tree))
    return folder


def codes(folder: Path) -> set[str]:
    return {each.code for each in verify_directory(folder, seeds=1).findings}


LAYOUTS = {
    "an unknown child": (lambda tree: tree["nodes"][0]["children"].append("gone"), "LAY-child"),
    "a node within itself": (
        lambda tree: tree["nodes"][1]["children"].append("tiny_transformer"),
        "LAY-child",
    ),
    "two nodes of one id": (
        lambda tree: tree["nodes"].append(dict(tree["nodes"][-1])),
        "LAY-tree",
    ),
    "an unknown root": (lambda tree: tree.update(root="gone"), "LAY-tree"),
    "another schema": (lambda tree: tree.update(schema_version="7"), "LAY-tree"),
    "a level as a word": (lambda tree: tree["nodes"][0].update(level="model"), "LAY-tree"),
    "another level than its folder": (lambda tree: tree["nodes"][0].update(level=2), "LAY-level"),
    "a file outside": (lambda tree: tree["nodes"][-1].update(file="../x.py"), "LAY-file"),
    "too many instances": (
        lambda tree: tree["nodes"][-1].update(instance_count=9),
        "LAY-count",
    ),
    "another shape than the file's": (
        lambda tree: tree["nodes"][-1]["outputs"][0].update(shape=[2, 8]),
        "FILE-shape",
    ),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_tree_that_does_not_fit_is_named(name: str, handmade: Path) -> None:
    edit, code = LAYOUTS[name]

    found = codes(edited(handmade, edit))

    assert code in found


def test_a_file_without_a_node_is_named(handmade: Path) -> None:
    (handmade / "level_0_kernel/spare.py").write_text("")

    found = verify_directory(handmade, seeds=1).findings

    assert [(each.code, each.file) for each in found] == [("LAY-stray", "level_0_kernel/spare.py")]


def test_a_file_that_cannot_be_imported_is_named_with_its_line(handmade: Path) -> None:
    (handmade / "level_0_kernel/gelu_64.py").write_text("import torch\n\nthis is no Python\n")

    (finding,) = verify_directory(handmade, seeds=1).findings

    assert (finding.code, finding.file, finding.line) == (
        "LAY-file",
        "level_0_kernel/gelu_64.py",
        3,
    )


def test_another_original_than_the_tree_was_made_from_is_named(tmp_path: Path) -> None:
    folder = written(tmp_path)
    with (folder / "original.py").open("a") as file:
        file.write("# edited\n")

    assert codes(folder) == {"LAY-tree"}


def test_without_an_original_it_says_what_to_do(handmade: Path) -> None:
    (handmade / "original.py").unlink()

    with pytest.raises(UsageError, match="--model FILE"):
        verify_directory(handmade)


def test_the_original_may_lie_elsewhere(handmade: Path, tmp_path: Path) -> None:
    model = (handmade / "original.py").rename(tmp_path / "model.py")

    report = verify_directory(handmade, model=model, seeds=1)

    assert report.passed


def test_what_we_write_passes_bit_by_bit_dropout_included(tmp_path: Path) -> None:
    report = verify_directory(written(tmp_path))

    assert report.findings == ()
    assert (report.passed, report.equality, report.shrunk) == (True, "bit-equal", None)


def test_a_step_that_computes_something_else_is_named(tmp_path: Path) -> None:
    folder = written(tmp_path)
    step = min(folder.glob("steps/*/original.py"))
    step.write_text(step.read_text().replace("torch.relu(", "torch.sigmoid("))

    (finding,) = verify_directory(folder, seeds=1).findings

    assert (finding.code, finding.file) == ("FILE-step", step.relative_to(folder).as_posix())


def test_a_definition_that_computes_something_else_is_named(tmp_path: Path) -> None:
    folder = written(tmp_path)
    (path,) = folder.glob("dataset/definitions/**/relu*.json")
    path.write_text(path.read_text().replace("torch.relu(", "torch.sigmoid("))

    found = codes(folder)

    assert found == {"FILE-definition"}


def test_a_missing_epsilon_is_found(tmp_path: Path) -> None:
    body = "return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) + y"
    folder = written(tmp_path, body)
    for path in (*folder.glob("level_*/*.py"), *folder.glob("steps/*/*.py")):
        path.write_text(path.read_text().replace(" + 1e-06", ""))
    shutil.rmtree(folder / "dataset")

    assert "SHADOW-differs" in codes(folder)


def test_a_model_too_big_for_memory_is_verified_on_a_smaller_batch(tmp_path: Path) -> None:
    folder = written(tmp_path, rows=4096)

    report = verify_directory(folder, seeds=1, memory_limit_bytes=615 << 20)

    assert report.passed
    assert report.shrunk == "4096 to 1024"


def test_a_model_whose_weights_do_not_fit_is_an_error_that_says_how_much_it_needs(
    tmp_path: Path,
) -> None:
    folder = written(tmp_path)

    with pytest.raises(UsageError, match=r"GiB.*--memory-limit"):
        verify_directory(folder, memory_limit_bytes=1 << 20)


@pytest.mark.full  # a large batch; `make test` verifies one
def test_a_model_too_big_for_memory_needs_files_that_run_on_meta(tmp_path: Path) -> None:
    folder = written(tmp_path, rows=4096)
    for path in folder.glob("level_0_kernel/relu*.py"):
        path.write_text(
            path.read_text().replace("torch.relu(x)", "torch.relu(x + 0 * x.max().item())")
        )

    with pytest.raises(
        TooBigError, match=r"does not run on meta.*item\(\).*; raise --memory-limit$"
    ):
        verify_directory(folder, seeds=1, memory_limit_bytes=615 << 20)


@pytest.mark.full  # a large batch; `make test` verifies one
def test_a_file_that_fails_by_itself_is_a_finding_however_small_the_memory(tmp_path: Path) -> None:
    folder = written(tmp_path, rows=4096)
    for path in folder.glob("level_0_kernel/relu*.py"):
        path.write_text(path.read_text().replace("torch.relu(", "torch.no_such_function("))

    report = verify_directory(folder, seeds=1, memory_limit_bytes=615 << 20)

    assert "FILE-fails" in {each.code for each in report.findings}
    assert report.notes == ("a file failed, so what it is part of could not be compared",)
    assert report.shrunk == "4096 to 1024"


@pytest.mark.full  # a large batch; `make test` verifies one
def test_bindings_to_nothing_are_a_finding_however_small_the_memory(tmp_path: Path) -> None:
    folder = written(tmp_path, rows=4096)

    def edit(tree: dict) -> None:
        (root,) = [each for each in tree["nodes"] if each["id"] == tree["root"]]
        root["instances"][0]["bindings"] = dict.fromkeys(root["instances"][0]["bindings"], "gone")

    report = verify_directory(edited(folder, edit), seeds=1, memory_limit_bytes=615 << 20)

    assert "BIND-unknown" in {each.code for each in report.findings}


@pytest.mark.full  # a large model is captured
def test_files_with_sizes_as_numbers_cannot_be_verified_on_a_smaller_batch(handmade: Path) -> None:
    for path in handmade.glob("level_*/*.py"):
        text = path.read_text()
        path.write_text(text.replace("view(batch, length, 3, 4, 8)", "view(2, 8, 3, 4, 8)"))
    grow(handmade, 4096)

    with pytest.raises(UsageError, match="do not run on a smaller batch"):
        verify_directory(handmade, memory_limit_bytes=640 << 20)


def grow(folder: Path, batch: int) -> None:
    """Give the model by hand another batch, everywhere."""
    for path in (folder / "original.py", *folder.glob("level_*/*.py")):
        text = path.read_text()
        for old, new in (
            ("torch.randn(2, ", f"torch.randn({batch}, "),
            ("[[2, ", f"[[{batch}, "),
            ("view(2, ", f"view({batch}, "),
        ):
            text = text.replace(old, new)
        path.write_text(text)

    def edit(tree: dict) -> None:
        for node in tree["nodes"]:
            for port in node["inputs"] + node["outputs"]:
                port["shape"] = [batch if size == 2 else size for size in port["shape"]]

    edited(folder, edit)


def test_a_mark_knows_a_permuted_tensor_but_not_a_changed_one() -> None:
    tensor = torch.randn(3, 5)

    same = mark(tensor.t().contiguous())

    assert same.unordered == mark(tensor).unordered
    assert same.ordered != mark(tensor).ordered
    assert mark(tensor + 1e-7).unordered != mark(tensor).unordered


def test_both_zeros_are_one_number() -> None:
    assert mark(torch.tensor([0.0, 1.0])) == mark(torch.tensor([-0.0, 1.0]))


def test_nan_equals_nan_and_nothing_else() -> None:
    broken = torch.tensor([float("nan"), 1.0])

    assert is_same(broken, broken.clone())
    assert not is_same(broken, torch.tensor([float("nan"), 2.0]))
    assert error(broken, torch.tensor([1.0, 1.0])) == float("inf")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_a_hundredth_too_much_is_never_tolerated(dtype: torch.dtype) -> None:
    tensor = torch.randn(1000).to(dtype)

    assert error(tensor * 1.01, tensor) > tolerance(dtype)
    assert error(tensor, tensor) == 0


def test_a_copy_keeps_strides_of_slices_and_of_repeated_elements() -> None:
    sliced = torch.randn(4, 9)[:, :5].t()
    repeated = torch.randn(3, 1).expand(3, 7)

    for tensor in (sliced, repeated):
        assert copied(tensor).stride() == tensor.stride()
        assert torch.equal(copied(tensor), tensor)
        assert copied(tensor).data_ptr() != tensor.data_ptr()


@pytest.mark.parametrize(
    ("body", "front_end"),
    [
        (
            "return torch.vmap(lambda row: torch.relu(self.up.weight @ row))(x) + y.sum()",
            "export, opaque",
        ),
        ("return torch.from_numpy(self.up(x).numpy() * 2) * y.sum()", "opaque"),
        ("return torch.tanh(torch.relu(x)) + y", "meta"),
        ("return (x.cos() * 1.0) @ (y.sin() * 1.0).t()", "meta"),
        ("return self.up(x) if self.up(y).sum() > -1e9 else y", "real"),
    ],
    ids=[
        "vmap",
        "numpy",
        "an operation that changes nothing here",
        "two of them",
        "a branch on data",
    ],
)
def test_models_captured_in_any_way_pass(body: str, front_end: str, tmp_path: Path) -> None:
    folder = written(tmp_path, body)

    report = verify_directory(folder, seeds=1)

    tree = json.loads((folder / "decomposition_tree.json").read_text())
    assert tree["metadata"]["front_end"] in front_end
    assert {each.severity for each in report.findings} <= {"warning"}
    assert report.passed


SPLIT_BY_WEIGHTS = (
    "z = self.up(x); return torch.relu(z[: int((z[:, 0] > 0).sum())]).sum(0) + self.up(y)"
)


def test_a_path_that_weights_decide_is_verified_with_those_it_was_captured_with(
    tmp_path: Path,
) -> None:
    folder = written(tmp_path, SPLIT_BY_WEIGHTS)
    plain = run_original(load_model_file(folder / "original.py"), Draws(0), "meta", moving=False)

    report = verify_directory(folder, seeds=1)

    assert plain.trace.front_end == "real"
    assert plain.watched == {op.id for op in plain.trace.ops}
    assert report.passed


UNCHANGED = """\
def resized(weight):
            whole = F.interpolate(weight[None], size=64, mode="linear").reshape(256, 64)
            return whole[torch.arange(255, -1, -1)]
        return x @ resized(self.up.weight).t()[:, :64] + y
"""


def test_an_operation_within_a_kernel_that_changes_nothing_here_is_found_in_it(
    tmp_path: Path,
) -> None:
    report = verify_directory(written(tmp_path, UNCHANGED), seeds=1)

    assert report.passed


GATED = """
import torch
from torch import nn


def long_gate(x):
    for _ in range(10):
        x = torch.sin(x) * 0.5 + x
    return x


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(8, 16)
        self.down = nn.Linear(16, 8)

    def forward(self, x):
        return self.down(long_gate(self.up(x)))


def get_inputs():
    return [torch.rand(4, 8)]


def get_init_inputs():
    return []
"""


@pytest.mark.parametrize(
    ("decision", "severities"),
    [
        ({"rules": {"composites": {"max_ops": 40}}}, []),
        ({"scopes": {"long_gate": "kernel"}}, ["warning"]),
    ],
)
def test_what_a_person_grouped_is_judged_by_what_that_person_decided(
    tmp_path: Path, decision: dict, severities: list[str]
) -> None:
    (tmp_path / "gated.py").write_text(GATED)
    found = take_apart(load_model_file(tmp_path / "gated.py"), parse_overrides(decision))
    found.write(tmp_path / "out")

    report = found.verify(tmp_path / "out", seeds=1)
    unasked = verify_directory(tmp_path / "out", seeds=1)

    assert report.passed
    assert [each.severity for each in report.findings] == severities
    assert [(each.code, each.severity) for each in unasked.findings] == [("GRAPH-kernel", "error")]


def test_a_tensor_that_was_written_to_gets_another_mark() -> None:
    marker, tensor = Marker(), torch.arange(4.0)
    before = marker(tensor)
    tensor[0] = -0.0
    same = marker(tensor)
    tensor[0] = 9.0

    assert before == same == mark(torch.tensor([0.0, 1.0, 2.0, 3.0]))
    assert marker(tensor) == mark(torch.tensor([9.0, 1.0, 2.0, 3.0]))


def test_only_what_may_draw_is_seeded() -> None:
    draws, x = Draws(3), torch.ones(4)
    with draws, draws.counting(0):
        x + x
        first = torch.nn.functional.dropout(x, 0.5)
        torch.relu(x).reshape(2, 2)
        second = torch.rand(4)
    with draws, draws.counting(1):
        again = torch.rand(4)

    assert draws.ordinal == 2
    assert torch.equal(second, again)
    assert not torch.equal(first, x)


def test_an_index_among_others_counts_as_used() -> None:
    watcher = Watcher(HANDMADE)
    given = (torch.tensor(1), torch.tensor(0))
    watcher.give(given)
    with watcher.watching():
        torch.ones(2, 2).clone()[(given, given)] = 0.0

    assert {id(each) for each in given} <= watcher.read
