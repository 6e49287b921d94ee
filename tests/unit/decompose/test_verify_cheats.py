"""Ways to pretend that a model was taken apart, played on a decomposition made by hand: each is named where it is."""
# ruff: noqa: E501  # replacements are whole lines

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from flashinfer_bench.decompose.verify import verify_directory
from flashinfer_bench.decompose.verify.findings import VerifyReport, Violation
from tests.marks import mostly_full

HANDMADE = Path(__file__).parents[2] / "fixtures/decompositions/tiny_transformer"
FEED = "level_1_fusion/feed_forward.py"
ATTENTION = "level_1_fusion/self_attention.py"
BLOCK = "level_2_layer/block.py"
MODEL = "level_3_model/tiny_transformer.py"
UP = "self.linear_32x64(x, up_weight, up_bias)"


@dataclass
class Cheat:
    """An edit, and the finding that must name it."""

    name: str
    code: str
    file: str
    says: str
    edits: list[tuple[str, str]] = field(default_factory=list)
    """Replacements in every file where the text occurs: a cheat is consistent."""
    tree: Callable[[dict], None] | None = None
    only: str | None = None


def without_child(parent: str, child: str) -> Callable[[dict], None]:
    def edit(tree: dict) -> None:
        node = find(tree, parent)
        node["children"] = [each for each in node["children"] if each != child]
        called = any(child in each["children"] for each in tree["nodes"])
        tree["nodes"] = [each for each in tree["nodes"] if each["id"] != child or called]

    return edit


def find(tree: dict, node_id: str) -> dict:
    return next(node for node in tree["nodes"] if node["id"] == node_id)


def fused_leaf(tree: dict) -> None:
    node = find(tree, "feed_forward")
    gone = set(node["children"])
    node.update(level=0, file="level_0_kernel/feed_forward.py", children=[])
    tree["nodes"] = [each for each in tree["nodes"] if each["id"] not in gone]


def halved(tree: dict) -> None:
    for node in tree["nodes"]:
        for port in node["inputs"] + node["outputs"]:
            if port["shape"][0] == 2:
                port["shape"][0] = 1


def swapped_norms(tree: dict) -> None:
    bindings = find(tree, "tiny_transformer")["instances"][0]["bindings"]
    bindings["block0_norm1_weight"], bindings["block0_norm2_weight"] = (
        bindings["block0_norm2_weight"],
        bindings["block0_norm1_weight"],
    )


def unmapped(tree: dict) -> None:
    root = find(tree, "tiny_transformer")
    del root["instances"][0]["bindings"]["norm_weight"]


def misnamed(tree: dict) -> None:
    find(tree, "tiny_transformer")["instances"][0]["bindings"]["norm_weight"] = "norm.scale"


def wrong_instance(tree: dict) -> None:
    find(tree, "linear_32x64")["instances"][0]["bindings"]["weight"] = "blocks.1.ffn.up.weight"


def unused_input(tree: dict) -> None:
    find(tree, "gelu_64")["inputs"].append(
        {"name": "spare", "shape": [64], "dtype": "float32", "kind": "weight"}
    )


GELU_IN_PARENT = ("self.gelu_64(self.linear_32x64", "{}(self.linear_32x64")
CHEATS = [
    Cheat(
        "a tensor method", "GRAPH-compute", FEED, "itself runs relu",
        edits=[(f"self.gelu_64({UP})", f"{UP}.relu()")],
    ),
    Cheat(
        "an operator", "GRAPH-compute", FEED, "x @ up_weight",
        edits=[(UP, "(x @ up_weight.t() + up_bias)")],
    ),
    Cheat(
        "an alias", "GRAPH-compute", FEED, "itself runs gelu",
        edits=[("self.gelu_64(self", "shape(self"), ("\n\nclass Add32", "\n\nshape = F.gelu\n\n\nclass Add32"),
               ("from torch import nn\n\n\nclass Linear32x64", "from torch import nn\n\nshape = F.gelu\n\n\nclass Linear32x64")],
    ),
    Cheat(
        "a helper function", "GRAPH-compute", FEED, "gelu",
        edits=[("self.gelu_64(self", "_reshaped(self"), ("class Linear32x64(", "def _reshaped(x):\n    return F.gelu(x)\n\n\nclass Linear32x64(")],
    ),
    Cheat(
        "a script that is compiled", "GRAPH-compute", FEED, "gelu",
        edits=[("self.gelu_64(self", "_scripted(self"),
               ("class Linear32x64(", "_scripted = torch.jit.trace(F.gelu, torch.ones(2))\n\n\nclass Linear32x64(")],
    ),
    Cheat(
        "an operator called by its internal name", "GRAPH-compute", FEED, "gelu",
        edits=[("self.gelu_64(self", "torch.ops.aten.gelu(self")],
    ),
    Cheat(
        "compute in nn.Sequential", "GRAPH-child", FEED, "'inner', a Sequential",
        edits=[("self.gelu_64(self", "self.inner(self"), ("self.gelu_64 = Gelu64()", "self.inner = nn.Sequential(Gelu64())")],
    ),
    Cheat(
        "a child that contains the whole", "GRAPH-child", FEED, "'whole', a Whole",
        edits=[(f"        hidden = self.gelu_64({UP})\n        return self.linear_64x32(hidden, down_weight, down_bias)",
                "        return self.whole(x, up_weight, up_bias, down_weight, down_bias)"),
               ("        self.gelu_64 = Gelu64()", "        self.whole = Whole()"),
               ("class Linear32x64(", "class Whole(nn.Module):\n    def forward(self, x, a, b, c, d):\n        return F.linear(F.gelu(F.linear(x, a, b)), c, d)\n\n\nclass Linear32x64(")],
    ),
    Cheat(
        "values read by the host", "GRAPH-host", FEED, "itself runs",
        edits=[("        return self.linear_64x32(hidden", "        hidden = torch.tensor(hidden.tolist())\n        return self.linear_64x32(hidden")],
    ),
    Cheat(
        "a cast in plumbing", "GRAPH-compute", FEED, "_to_copy",
        edits=[("        return self.linear_64x32(hidden,", "        return self.linear_64x32(hidden.double().float(),")],
    ),
    Cheat(
        "an unused input", "FILE-unused", "level_0_kernel/gelu_64.py", "never uses its input spare",
        edits=[("    def forward(self, x):\n        return F.gelu(x)", "    def forward(self, x, spare):\n        return F.gelu(x)"),
               ("self.gelu_64(self.linear_32x64(x, up_weight, up_bias))", "self.gelu_64(self.linear_32x64(x, up_weight, up_bias), up_bias)"),
               ("        torch.randn(2, 8, 64, generator=generator),  # x\n    ]\n\n\ndef get_init_inputs():\n    return []\n\n\ndef get_expected_output_shape():\n    return [[2, 8, 64]]",
                "        torch.randn(2, 8, 64, generator=generator),  # x\n        torch.ones(64),\n    ]\n\n\ndef get_init_inputs():\n    return []\n\n\ndef get_expected_output_shape():\n    return [[2, 8, 64]]")],
        tree=unused_input,
    ),
    Cheat("an unmapped weight", "BIND-unmapped", MODEL, "norm.weight", tree=unmapped),
    Cheat("a weight that is not there", "BIND-unknown", MODEL, "'norm.scale'", tree=misnamed),
    Cheat("an instance bound to another's weight", "BIND-differs", "level_0_kernel/linear_32x64.py",
          "blocks.1.ffn.up.weight", tree=wrong_instance),
    Cheat("norms swapped whose defaults are equal", "SHADOW-differs", "level_0_kernel/rms_norm_32.py",
          "is no tensor of the original", tree=swapped_norms),
    Cheat(
        "an order that symmetric weights hide", "SHADOW-differs", "level_0_kernel/rms_norm_32.py",
        "at block:0/rms_norm_32:0",
        edits=[("self.rms_norm_32(x, norm1_weight)", "self.rms_norm_32(x, norm3_weight)"),
               ("self.rms_norm_32(x, norm2_weight)", "self.rms_norm_32(x, norm1_weight)"),
               ("self.rms_norm_32(x, norm3_weight)", "self.rms_norm_32(x, norm2_weight)")],
    ),
    Cheat(
        "a batch made smaller", "FILE-sizes", "level_0_kernel/gelu_64.py", "in the original's run it is float32[2, 8, 64]",
        edits=[("torch.randn(2, ", "torch.randn(1, "), ("[[2, 8,", "[[1, 8,"), ("[[2, 4,", "[[1, 4,")],
        tree=halved,
    ),
    Cheat(
        "sizes of one file made smaller", "FILE-sizes", "level_0_kernel/gelu_64.py", "float32[2, 8, 64]",
        edits=[("torch.randn(2, 8, 64", "torch.randn(2, 4, 64"), ("[[2, 8, 64]]", "[[2, 4, 64]]")],
    ),
    Cheat(
        "an input written in place", "FILE-writes", "level_0_kernel/add_32.py", "writes into its input x",
        edits=[("return x + y", "return x.add_(y)")],
    ),
    Cheat(
        "a parameter of its own", "FILE-state", "level_0_kernel/gelu_64.py", "holds the tensor scale",
        edits=[("class Gelu64(nn.Module):\n    \"\"\"Exact GELU.\"\"\"\n", "class Gelu64(nn.Module):\n    scale = torch.ones(1)\n"),
               ("class Model(nn.Module):\n    \"\"\"Exact GELU.\"\"\"\n", "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.scale = torch.ones(1)\n")],
    ),
    Cheat(
        "several operations called a kernel", "GRAPH-kernel", "level_0_kernel/feed_forward.py", "is 3 kernels of the original",
        tree=fused_leaf,
    ),
    Cheat(
        "an operation left out", "SHADOW-differs", "level_0_kernel/linear_64x32.py", "",
        edits=[("self.gelu_64(self.linear_32x64(x, up_weight, up_bias))", "self.linear_32x64(x, up_weight, up_bias)")],
        tree=without_child("feed_forward", "gelu_64"),
    ),
    Cheat(
        "an operation done twice", "COVER-twice", "level_0_kernel/gelu_64.py", "is computed by",
        edits=[("        return self.linear_64x32(hidden", f"        self.gelu_64({UP})\n        return self.linear_64x32(hidden")],
    ),
    Cheat(
        "an output a little too large", "SHADOW-differs", "level_0_kernel/gelu_64.py", "1.0e-02 apart",
        edits=[("return F.gelu(x)", "return F.gelu(x) * 1.01")],
    ),
    Cheat(
        "a copy that differs from the child's file", "COMP-copy", FEED, "gelu_64",
        edits=[("return F.gelu(x)", "return F.gelu(x) * 1.01")], only=FEED,
    ),
    Cheat("a child that is not called", "GRAPH-uncalled", FEED, "never calls its child gelu_64",
          edits=[("self.gelu_64(self.linear_32x64(x, up_weight, up_bias))", "self.linear_32x64(x, up_weight, up_bias)")]),
]  # fmt: skip


def played(cheat: Cheat, folder: Path) -> VerifyReport:
    shutil.copytree(HANDMADE, folder)
    for path in folder.glob("level_*/*.py"):
        if cheat.only is None or path == folder / cheat.only:
            text = path.read_text()
            for old, new in cheat.edits:
                text = text.replace(old, new)
            path.write_text(text)
    if cheat.tree is fused_leaf:
        move_fusion(folder)
    if cheat.tree is not None:
        path = folder / "decomposition_tree.json"
        tree = json.loads(path.read_text())
        cheat.tree(tree)
        path.write_text(json.dumps(tree))
    for path in list(folder.glob("level_0_kernel/*.py")):
        if path.name not in (folder / "decomposition_tree.json").read_text():
            path.unlink()
    return verify_directory(folder, seeds=1)


def move_fusion(folder: Path) -> None:
    (folder / FEED).rename(folder / "level_0_kernel/feed_forward.py")


LONG = {"GRAPH-host"}
FIRST_OF_A_CODE = {each.code: each for each in reversed(CHEATS) if each.code not in LONG}.values()


@pytest.mark.parametrize(
    "cheat",
    mostly_full(CHEATS, *FIRST_OF_A_CODE),
    ids=lambda cheat: re.sub(r"\W+", "_", cheat.name),
)
def test_a_cheat_is_found_where_it_is(cheat: Cheat, tmp_path: Path) -> None:
    report = played(cheat, tmp_path / "played")

    assert not report.passed
    assert names_it(report.findings, cheat), [
        (each.code, each.file, each.message) for each in report.findings
    ]


def names_it(findings: tuple[Violation, ...], cheat: Cheat) -> bool:
    return any(
        each.code == cheat.code and each.file == cheat.file and cheat.says in each.message
        for each in findings
    )


def test_a_decomposition_made_by_hand_passes() -> None:
    report = verify_directory(HANDMADE)

    assert report.findings == ()
    assert report.passed
    assert report.equality == "bit-equal"
    assert [rung.verdict for rung in report.rungs] == ["pass"] * 7
    assert report.coverage is not None
    assert report.coverage.share == 1.0


def test_a_leaf_that_says_why_it_is_kept_whole_is_a_warning_where_that_is_allowed(
    tmp_path: Path,
) -> None:
    def opaque(tree: dict) -> None:
        fused_leaf(tree)
        find(tree, "feed_forward")["opaque"] = "measured as one"

    move_fusion(Path(shutil.copytree(HANDMADE, tmp_path / "kept")))
    path = tmp_path / "kept/decomposition_tree.json"
    tree = json.loads(path.read_text())
    opaque(tree)
    path.write_text(json.dumps(tree))
    for name in ("linear_32x64", "gelu_64", "linear_64x32"):
        (tmp_path / f"kept/level_0_kernel/{name}.py").unlink()

    allowed = verify_directory(tmp_path / "kept", seeds=1, allow_opaque=True)
    refused = verify_directory(tmp_path / "kept", seeds=1)

    (finding,) = allowed.findings
    assert (finding.code, finding.severity) == ("GRAPH-kernel", "warning")
    assert "kept whole: measured as one" in finding.message
    assert allowed.passed
    assert [each.severity for each in refused.findings] == ["error"]
    assert not refused.passed
