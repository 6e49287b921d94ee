from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest
import torch
from torch import nn

from flashinfer_bench.decompose.capture import capture
from flashinfer_bench.decompose.model_file import ModelFileError, ModelObject, load_model_file

GOOD = """
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.one = nn.Linear(width, width)
        self.other = nn.Linear(width, width)
        self.other.weight = self.one.weight
        self.mask = torch.tril(torch.ones(width, width))
    def forward(self, x):
        return self.other(self.one(x)) * self.mask
def get_inputs():
    return [torch.randn(4, 4)]
"""


def _write(folder: Path, text: str, name: str = "model.py") -> Path:
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


def _with(**parts: str) -> str:
    """A small model's file with some of its parts replaced."""
    text = {
        "top": "",
        "init": "pass",
        "forward": "return x",
        "get_inputs": "return [torch.ones(2)]",
        "end": "",
        **parts,
    }
    return (
        "import torch\nfrom torch import nn\n{top}\nclass Model(nn.Module):\n    def __init__(self, *a, **k):\n"
        "        super().__init__()\n        {init}\n    def forward(self, x, *more):\n        {forward}\n"
        "def get_inputs():\n    {get_inputs}\n{end}\n"
    ).format(**text)


def test_weights_are_drawn_from_the_seed_and_ties_are_kept(tmp_path: Path) -> None:
    source = load_model_file(_write(tmp_path, GOOD))

    one, again, other = source.build("cpu", 1), source.build("cpu", 1), source.build("cpu", 2)
    meta = source.build("meta", 1)

    assert torch.equal(one.one.weight, again.one.weight)
    assert not torch.equal(one.one.weight, other.one.weight)
    assert meta.one.weight is meta.other.weight
    assert {each.device.type for each in meta.parameters()} == {"meta"}
    assert torch.equal(source.inputs("cpu", 1)[0], source.inputs("cpu", 1)[0])


def test_a_constructor_that_reads_its_weights_is_built_with_values_and_moved(
    tmp_path: Path,
) -> None:
    text = _with(
        init="self.a = nn.Linear(3, 3); self.b = nn.Linear(3, 3); self.b.weight = self.a.weight; "
        "self.scale = float(self.a.weight.sum()); self.mask = torch.ones(3)",
        forward="return self.b(x) * self.scale * self.mask",
        get_inputs="return [torch.ones(3)]",
    )
    source = load_model_file(_write(tmp_path, text))

    meta = source.build("meta", 0)

    assert meta.a.weight is meta.b.weight
    assert {each.device.type for each in (meta.a.weight, meta.mask)} == {"meta"}
    assert capture(source).trace.front_end == "meta"


def test_files_of_one_name_do_not_mix_nor_do_their_helpers(tmp_path: Path) -> None:
    results = []
    for number in (1, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        _write(folder, f"FACTOR = {number}", "helper_of_tests.py")
        text = _with(top="import helper_of_tests", forward="return x * helper_of_tests.FACTOR")
        results.append(load_model_file(_write(folder, text)))

    factors = [capture(each).trace.ops[0].args[1] for each in results]

    assert factors == [1, 2]
    assert "helper_of_tests" not in sys.modules
    assert str(tmp_path / "1") not in sys.path


def test_a_helper_may_be_imported_as_late_as_in_forward(tmp_path: Path) -> None:
    _write(tmp_path, "def twice(x): return x * 2", "late_helper_of_tests.py")
    text = _with(forward="import late_helper_of_tests; return late_helper_of_tests.twice(x)")

    trace = capture(load_model_file(_write(tmp_path, text))).trace

    assert [op.fn for op in trace.ops] == ["torch.mul"]
    assert trace.ops[0].scope[-1].path == "twice"


@pytest.mark.parametrize(
    ("get_inputs", "forward", "count"),
    [
        ("return torch.ones(2)", "return x", 1),
        ("return [torch.ones(2), 3, None, 'a']", "return x * more[0]", 1),
        ("return [[torch.ones(2), torch.ones(2)]]", "return x[0] + x[1]", 2),
        ("return [{'a': torch.ones(2), 'b': (torch.ones(2),)}]", "return x['a'] + x['b'][0]", 2),
        ("return {'x': torch.ones(2)}", "return x + 1", 1),
        ("return (torch.ones(2),)", "return x + 1", 1),
    ],
)
def test_inputs_come_in_many_forms(
    tmp_path: Path, get_inputs: str, forward: str, count: int
) -> None:
    source = load_model_file(_write(tmp_path, _with(get_inputs=get_inputs, forward=forward)))

    trace = capture(source).trace

    assert len(trace.inputs) == count


@pytest.mark.parametrize("given", ["return [3]", "return {'width': 3}", "return (3,)", "return 3"])
def test_the_constructor_is_given_a_list_or_names(tmp_path: Path, given: str) -> None:
    text = GOOD.replace("randn(4, 4)", "randn(3, 3)") + f"def get_init_inputs():\n    {given}\n"

    source = load_model_file(_write(tmp_path, text))

    assert source.build("meta", 0).one.in_features == 3


WRONG = {
    "no file": (None, r"no file .*model\.py"),
    "no Model": ("import torch\ndef get_inputs(): return []", r"model\.py defines no class Model: a model's file"),
    "no inputs": ("class Model: pass", r"model\.py defines no function get_inputs\(\): a model's file"),
    "syntax": ("import torch\nclass Model(:\n  pass", r"model\.py:2: invalid syntax: class Model\(:"),
    "missing": (_with(top="import no_such_package_at_all.sub"),
                r"model\.py:3 imports no_such_package_at_all.*pip install no_such_package_at_all, or put"),
    "top level": (_with(top="1 / 0"), r"model\.py:3: the file raised ZeroDivisionError at `1 / 0`"),
    "constructor": (_with(init="raise ValueError('odd')"),
                    r"model\.py:7: the constructor of Model raised ValueError at `raise .*`: odd"),
    "download": (_with(init="import urllib.error; raise urllib.error.URLError('no route')"),
                 r"model\.py:7: the constructor of Model wants to download .*no route.*fetch it beforehand"),
    "inputs raise": (_with(get_inputs="return [undefined_name]"),
                     r"model\.py:11: get_inputs raised NameError at `return \[undefined_name\]`"),
    "forward": (_with(forward="return x @ torch.ones(5)"),
                r"model\.py:9: forward raised RuntimeError at `return x @ torch.ones\(5\)`"),
    "late import": (_with(forward="import no_such_package_at_all"),
                    r"model\.py:9 imports no_such_package_at_all, which is not installed"),
    "no module": ("def Model(): return 3\nModel.forward = None\ndef get_inputs(): return []",
                  r"Model makes a int: derive it from torch.nn.Module"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "message"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_one_sentence_with_its_place(
    tmp_path: Path, text: str | None, message: str
) -> None:
    path = tmp_path / "model.py"
    if text is not None:
        path.write_text(text)

    with pytest.raises(ModelFileError, match=message) as caught:
        capture(load_model_file(path))

    assert "\n" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_module_that_exists_keeps_its_weights_and_inputs() -> None:
    module, given = nn.Linear(3, 3), torch.ones(2, 3)
    source = ModelObject(module, (given,))

    copied = source.build("cpu", 7)
    source.inputs("cpu", 0)[0].zero_()

    assert torch.equal(copied.weight, module.weight)
    assert copied.weight is not module.weight
    assert module.weight.requires_grad
    assert given.sum() == 6


def test_one_tensor_given_twice_stays_one() -> None:
    given = torch.ones(2, 3)

    first, second = ModelObject(nn.Bilinear(3, 3, 2), [given, given]).inputs("meta", 0)

    assert first is second
