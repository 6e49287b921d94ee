"""Verdicts on decompositions as agents publish them: right ones pass, wrong ones are named, others cannot be judged."""

# ruff: noqa: E501  # findings and formulas are whole lines

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from flashinfer_bench.decompose.verify import CannotJudgeError, verify_directory
from flashinfer_bench.decompose.verify.findings import VerifyReport
from tests.marks import mostly_full
from tests.unit.decompose import published
from tests.unit.decompose.published import (
    FORMS,
    PIECES,
    PublishedPiece,
    by_path,
    changed,
    importing,
    without,
    write,
)


def verdict(
    folder: Path, pieces: Sequence[PublishedPiece] = PIECES, tree: Any = None
) -> VerifyReport:
    return verify_directory(write(folder / "net", pieces, tree), seeds=1)


def errors(report: VerifyReport) -> list[tuple[str, str]]:
    return [(each.code, each.file) for each in report.findings if each.severity == "error"]


def warnings(report: VerifyReport) -> list[str]:
    return [
        f"{each.file}: {each.message}" for each in report.findings if each.severity == "warning"
    ]


@pytest.mark.parametrize("form", mostly_full(FORMS, "by path", "nested", "by id"))
def test_a_right_one_passes_in_each_form_of_its_tree(form: str, tmp_path: Path) -> None:
    report = verdict(tmp_path, tree=FORMS[form])

    assert report.findings == ()
    assert report.passed
    assert report.equality == "bit-equal"
    assert report.coverage is not None
    assert report.coverage.in_leaves == 8
    assert (
        "assumed: 28 weights of files are those that the original reads in the same operations"
        in report.notes
    )


def test_without_a_tree_it_is_derived_from_the_files(tmp_path: Path) -> None:
    report = verdict(tmp_path)

    assert report.passed
    assert "derived from the files" in report.rungs[0].detail


def test_files_that_import_each_other_pass_too(tmp_path: Path) -> None:
    report = verdict(tmp_path, [importing(each) for each in PIECES])

    assert report.findings == ()
    assert report.passed


def wrong_tree() -> dict[str, Any]:
    tree = by_path()
    nodes = tree["tree"]
    nodes["level_2_layer/head.py"]["children"] += ["level_1_fusion/conv_relu.py", "somebody"]
    nodes["level_2_layer/head.py"]["children"] += ["level_0_kernel/nobody.py"]
    nodes["level_0_kernel/relu.py"].update(level=1, output_shapes=[[4, 3]])
    nodes["level_0_kernel/gone.py"] = {"level": 0, "children": []}
    del nodes["level_0_kernel/softmax.py"]
    return tree


def test_a_wrong_tree_is_told_and_the_files_are_judged_as_they_are(tmp_path: Path) -> None:
    report = verdict(tmp_path, tree=wrong_tree())

    assert report.passed
    assert warnings(report) == [
        "level_2_layer/head.py: it names the child level_1_fusion/conv_relu.py, which is no part of it",
        "level_2_layer/head.py: it names the child 'somebody', which is no file of the tree",
        "level_2_layer/head.py: it names the child level_0_kernel/nobody.py, which is not there",
        "level_0_kernel/relu.py: it states level 1; the file lies in that of level 0",
        "level_0_kernel/relu.py: the tree states outputs of [4, 3]; the file's are [4, 3, 10, 10]",
        "decomposition_tree.json: it names level_0_kernel/gone.py, which is not there",
        "level_0_kernel/softmax.py: decomposition_tree.json does not name it",
    ]


def test_of_a_file_that_stands_nowhere_it_is_not_said_what_is_no_part_of_it(
    tmp_path: Path,
) -> None:
    pieces = changed(
        "features", held=("self.block = nn.Sequential(nn.Conv2d(1, 3, 3), nn.MaxPool2d(2))",)
    )
    report = verdict(tmp_path, pieces, by_path())

    assert not report.passed
    assert [each for each in warnings(report) if "which is no part of it" in each] == []


@pytest.mark.parametrize("text", ["{not json", "[]", "{}"])
def test_a_tree_that_says_nothing_is_derived(text: str, tmp_path: Path) -> None:
    report = verdict(tmp_path, tree=text)

    assert report.passed
    assert "derived from the files" in report.rungs[0].detail


def test_one_file_may_stand_in_several_places(tmp_path: Path) -> None:
    relu = dataclasses.replace(published.KERNELS[5], shape=(4, 16), made=(4, 16))
    twice = published.ORIGINAL.replace("F.relu(self.hidden(x.view(x.shape[0], -1)))",
                                       "F.relu(F.relu(self.hidden(x.view(x.shape[0], -1))))")  # fmt: skip
    folder = write(tmp_path / "net", [each for each in published.KERNELS if each != relu] + [relu])
    (tmp_path / "data/net.py").write_text(twice)

    report = verify_directory(folder, seeds=1)

    assert report.passed
    assert "no file is the whole model" in report.notes
    assert report.leaf_calls == 9


WRONG = {
    "another function": (
        changed("relu_2", forward="F.gelu(x)"),
        ("SHADOW-differs", "level_0_kernel/relu_2.py"),
        "it computes nothing (gelu) that the original computes",
    ),
    "another constant": (
        changed("softmax", forward="torch.softmax(x, dim=0)"),
        ("FILE-constant", "level_0_kernel/softmax.py"),
        "softmax has 0 where the original has 1",
    ),
    "a constant that is wrong in its fourth digit": (
        changed("layer_norm_16", held=("self.ln = nn.LayerNorm(16, eps=1.001e-5)",)),
        ("FILE-constant", "level_0_kernel/layer_norm_16.py"),
        "layer_norm has eps = 1.001e-05 where the original has eps = 1e-05",
    ),
    "a factor too much": (
        changed("linear_16x5", forward="self.fc(x) * 1.0001"),
        ("SHADOW-differs", "level_0_kernel/linear_16x5.py"),
        "it computes nothing (linear, mul)",
    ),
    "a missing kernel": (
        without("layer_norm_16"),
        ("COVER-missing", "level_2_layer/head.py"),
        "no kernel's file computes nn.functional.layer_norm",
    ),
    "another size": (
        changed("relu_2", shape=(2, 16), made=(2, 16)),
        ("FILE-sizes", "level_0_kernel/relu_2.py"),
        "x is float32[2, 16]; in the original's run it is float32[4, 16]",
    ),
    "a shape that is not made": (
        changed("max_pool2d", made=(4, 3, 5, 4)),
        ("FILE-shape", "level_0_kernel/max_pool2d.py"),
        "get_expected_output_shape() says [[4, 3, 5, 4]]",
    ),
    "data movement of another size": (
        changed("flatten", shape=(2, 3, 5, 5), made=(2, 75)),
        ("FILE-sizes", "level_0_kernel/flatten.py"),
        "it moves data of shape [2, 3, 5, 5], which no tensor of the original has",
    ),
    "a test that fails": (
        changed("max_pool2d", made=(4, 3, 5, 4)),
        ("FILE-test", "level_0_kernel/max_pool2d.py"),
        "FAIL: shape (4, 3, 5, 5)",
    ),
    "a file that is no Python": (
        changed("relu_2", forward="F.relu(x"),
        ("LAY-file", "level_0_kernel/relu_2.py"),
        "level_0_kernel/relu_2.py",
    ),
    "a file that does not run": (
        changed("relu_2", forward="F.relu(x, 1, 2, 3)"),
        ("FILE-fails", "level_0_kernel/relu_2.py"),
        "relu",
    ),
    "a wrong layer over right kernels": (
        changed("features", held=("self.block = nn.Sequential(nn.Conv2d(1, 3, 3), nn.MaxPool2d(2))",)),
        ("SHADOW-differs", "level_2_layer/features.py"),
        "it computes nothing",
    ),
    "a kernel too many": (
        (*PIECES, dataclasses.replace(published.KERNELS[5], name="relu_3")),
        ("LAY-stray", "level_0_kernel/relu_3.py"),
        "it is not needed: level_0_kernel/relu_2.py stands for relu",
    ),
    "the model again, over kernels that nobody uses": (
        (PIECES[-1], *(dataclasses.replace(each, forward="torch.tanh(x)", held=(), made=each.shape)
                       for each in published.KERNELS[:3])),
        ("COVER-missing", "level_3_model/net.py"),
        "no kernel's file computes nn.functional.conv2d",
    ),
    "the model as one kernel": (
        [dataclasses.replace(PIECES[-1], level=0)],
        ("GRAPH-kernel", "level_0_kernel/net.py"),
        "kernels of the original",
    ),
    "an import that is not called": (
        [dataclasses.replace(importing(each), forward="F.max_pool2d(self.conv_relu(x), 2)")
         if each.name == "features" else importing(each) for each in PIECES],
        ("GRAPH-uncalled", "level_2_layer/features.py"),
        "it imports level_0_kernel/max_pool2d.py, and never calls it",
    ),
}  # fmt: skip


QUICK = (
    "another function", "a constant that is wrong in its fourth digit", "a missing kernel", "another size",
    "a kernel too many", "the model again, over kernels that nobody uses", "a file that does not run",
)  # fmt: skip


@pytest.mark.parametrize("name", mostly_full(WRONG, *QUICK))
def test_a_wrong_one_is_named_with_its_place(name: str, tmp_path: Path) -> None:
    pieces, expected, says = WRONG[name]

    report = verdict(tmp_path, pieces, None)

    assert not report.passed
    assert expected in errors(report)
    messages = [each.message for each in report.findings if (each.code, each.file) == expected]
    assert any(says in message for message in messages), messages


def test_only_the_wrong_kernel_is_named(tmp_path: Path) -> None:
    report = verdict(tmp_path, changed("relu_2", forward="F.gelu(x)"), by_path())

    assert errors(report) == [
        ("SHADOW-differs", "level_0_kernel/relu_2.py"),
        ("COVER-missing", "level_1_fusion/flatten_linear_relu.py"),
    ]
    assert "closest is relu" in report.findings[0].message


def test_a_formula_written_otherwise_is_found_by_its_numbers(tmp_path: Path) -> None:
    written = "(x - x.mean(-1, keepdim=True)) / (x.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt() * self.weight + self.bias"
    pieces = changed(
        "layer_norm_16", forward=written,
        held=("self.bias = nn.Parameter(torch.zeros(16))", "self.weight = nn.Parameter(torch.ones(16))"),
    )  # fmt: skip

    report = verdict(tmp_path, pieces)

    assert errors(report) == []
    assert report.equality.startswith("within tolerance")
    assert (
        "level_0_kernel/layer_norm_16.py is written with other operations; it was found by its numbers"
        in report.notes
    )
    assert "assumed: 2 weights of files by name, else by shape in order" in report.notes


def test_without_an_original_it_cannot_be_judged(tmp_path: Path) -> None:
    folder = write(tmp_path / "net", PIECES)
    (tmp_path / "data/net.py").unlink()

    with pytest.raises(CannotJudgeError) as raised:
        verify_directory(folder)

    assert str(raised.value) == (
        f"{folder}: cannot be judged because the original model is not there (data/net.py is nowhere above the folder): "
        "name its file with --model"
    )


def test_with_an_original_that_does_not_run_it_cannot_be_judged(tmp_path: Path) -> None:
    folder = write(tmp_path / "net", PIECES)
    (tmp_path / "data/net.py").write_text("import torch\n")

    with pytest.raises(
        CannotJudgeError, match="cannot be judged because the original does not run"
    ):
        verify_directory(folder)


def test_with_too_little_memory_it_cannot_be_judged(tmp_path: Path) -> None:
    folder = write(tmp_path / "net", PIECES)

    with pytest.raises(CannotJudgeError, match=r"cannot be judged because it needs about 0\.6 GiB"):
        verify_directory(folder, memory_limit_bytes=1 << 20)
