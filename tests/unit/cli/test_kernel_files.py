from __future__ import annotations

from pathlib import Path

import pytest

from flashinfer_bench.cli.measure.kernel_files import Hints, solution_from
from flashinfer_bench.data import AxisVar, Definition, Solution, TensorSpec
from flashinfer_bench.errors import UsageError

TENSOR = TensorSpec(shape=["n"], dtype="float32")
DEFINITION = Definition(
    name="add",
    op_type="elementwise",
    axes={"n": AxisVar()},
    inputs={"a": TENSOR, "b": TENSOR},
    outputs={"y": TENSOR},
    reference="def run(a, b):\n    return a + b\n",
)
EXPORT = "TVM_FFI_DLL_EXPORT_TYPED_FUNC({0}, {0}_impl);\n"


def _solution(folder: Path, name: str, text: str, hints: Hints | None = None) -> Solution:
    file = folder / name
    file.write_text(text)
    return solution_from(file, DEFINITION, hints or Hints())


@pytest.mark.parametrize(
    ("text", "entry", "is_into"),
    [
        ("def run(a, b):\n    return a + b\n", "run", False),
        ("def add(a, b):\n    return a + b\n", "add", False),
        ("def add(a, b, y):\n    y.copy_(a + b)\n", "add", True),
        ("def _help(): ...\ndef add(a, b): ...\n", "add", False),
        ("def other(): ...\ndef run(a, b, y): ...\n", "run", True),
        ("run = lambda a, b: a + b\n", "run", False),
        ("def run(*everything): ...\n", "run", False),
        ("def run(:\n", "run", False),  # building it will say what is wrong
    ],
)
def test_a_python_file_says_what_to_call(
    tmp_path: Path, text: str, entry: str, is_into: bool
) -> None:
    spec = _solution(tmp_path, "kernel.py", text).spec

    assert spec.entry_point == f"kernel.py::{entry}"
    assert spec.destination_passing_style is is_into
    assert (spec.language, spec.binding) == ("python", None)


@pytest.mark.parametrize("name", ["kernel.cpp", "kernel.cc"])
def test_a_cpp_file_exports_what_to_call(tmp_path: Path, name: str) -> None:
    spec = _solution(tmp_path, name, EXPORT.format("add")).spec

    assert (spec.language, spec.binding) == ("cpp", "tvm-ffi")
    assert spec.entry_point == f"{name}::add"
    assert spec.destination_passing_style


def test_a_torch_extension_is_recognised(tmp_path: Path) -> None:
    text = 'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("add", &add); }\n'

    spec = _solution(tmp_path, "kernel.cpp", text).spec

    assert (spec.binding, spec.entry_point) == ("torch", "kernel.cpp::add")


def test_headers_beside_a_file_come_along(tmp_path: Path) -> None:
    (tmp_path / "inner.h").write_text("")
    (tmp_path / "outer.h").write_text('#include "inner.h"\n')
    (tmp_path.parent / "elsewhere.h").write_text("")
    includes = '#include "outer.h"\n#include "../elsewhere.h"\n#include <vector>\n'

    solution = _solution(tmp_path, "kernel.cpp", includes + EXPORT.format("run"))

    assert [source.path for source in solution.sources] == ["kernel.cpp", "outer.h", "inner.h"]


@pytest.mark.parametrize(
    ("imports", "language"),
    [
        ("import torch\nimport triton.language as tl", "triton"),
        ("import torch, triton, triton.language as tl", "triton"),
        ("from tilelang import language as T; import triton", "tilelang"),
        ("try:\n    import triton\nexcept ImportError: triton = None", "triton"),
        ('"""Not as\nimport triton\nwould be."""', "python"),
        ("from .triton import helper", "python"),
        ("import triton\nif:", "triton"),
    ],
)
def test_a_dsl_is_recognised_by_its_import(tmp_path: Path, imports: str, language: str) -> None:
    text = f"{imports}\ndef run(a, b): ...\n"

    assert _solution(tmp_path, "kernel.py", text).spec.language == language


REFERENCE = "def total(a, b):\n    return a + b\n\ndef run(a, b):\n    return total(a, b)\n"


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        ("def helper(a): ...\ndef add(a, b): ...\n", "add"),
        ("def helper(a): ...\ndef elementwise(a, b): ...\n", "elementwise"),
        ("def helper(a): ...\ndef total(a, b): ...\n", "total"),
        ("@triton.jit\ndef kernel(a): ...\ndef mine(a, b): ...\n", "mine"),
        ("@triton.autotune([])\n@triton.jit(debug=1)\ndef kernel(a): ...\ndef f(a, b): ...", "f"),
        ("@T.prim_func\ndef kernel(a): ...\ndef mine(a, b): ...\n", "mine"),
        ("@jit\ndef only(a, b): ...\n", "only"),
    ],
)
def test_of_several_functions_the_one_the_definition_names_is_called(
    tmp_path: Path, text: str, entry: str
) -> None:
    file = tmp_path / "kernel.py"
    file.write_text(text)
    definition = DEFINITION.model_copy(update={"reference": REFERENCE})

    found = solution_from(file, definition, Hints())

    assert found.spec.entry_point == f"kernel.py::{entry}"


def test_of_several_exports_the_one_the_definition_names_is_called(tmp_path: Path) -> None:
    spec = _solution(tmp_path, "kernel.cpp", EXPORT.format("a") + EXPORT.format("add")).spec

    assert spec.entry_point == "kernel.cpp::add"


def test_hints_go_before_guesses(tmp_path: Path) -> None:
    hints = Hints(language="tilelang", entry_point="kernel.py::two", device_kind="cuda")

    spec = _solution(tmp_path, "kernel.py", "def one(): ...\ndef two(a, b): ...\n", hints).spec

    assert (spec.language, spec.entry_point) == ("tilelang", "kernel.py::two")
    assert spec.target_hardware == ["cuda"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("kernel.rs", "", "cannot tell the language"),
        ("kernel.py", "def one(): ...\ndef two(): ...\n", "several public functions"),
        ("kernel.cpp", "void run() {}", "the file exports no function"),
        ("kernel.cpp", EXPORT.format("a") + EXPORT.format("b"), "several exported functions"),
    ],
)
def test_what_cannot_be_told_is_asked(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        _solution(tmp_path, name, text)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_bytes(b"\xff\xfe\x00")

    with pytest.raises(UsageError, match="not UTF-8"):
        solution_from(tmp_path / "kernel.py", DEFINITION, Hints())
