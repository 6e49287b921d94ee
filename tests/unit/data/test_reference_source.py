"""An author's file becomes the text of a reference, without being run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flashinfer_bench.data.scaffolding.reference_source import (
    AuthorsFile,
    read_authors_file,
    reference_text,
    returned_names,
    shape_hints,
)
from flashinfer_bench.errors import UsageError

OPS = '''\
"""My operations."""
import math

SCALE = 2.0


def double(x):
    return x * SCALE


def op(x, weight, eps=1e-6):
    batch, hidden = x.shape
    output = double(x) + weight
    return output


def other(x):
    return x


def example_inputs():
    return {"x": 1}


if __name__ == "__main__":
    print(op(**example_inputs()))
'''


def written(folder: Path, text: str, function: str | None = "op") -> AuthorsFile:
    path = folder / "my_ops.py"
    path.write_text(text)
    return read_authors_file(path, function)


def run_of(text: str) -> Any:
    namespace: dict[str, Any] = {}
    exec(text, namespace)
    return namespace["run"]


def test_a_reference_holds_what_the_function_needs_and_no_more(tmp_path: Path) -> None:
    text = reference_text(written(tmp_path, OPS), ["x", "weight"])

    assert text == OPS.partition("\n\n\ndef other")[0] + (
        "\n\n\ndef run(x, weight):\n    return op(x, weight)\n"
    )


def test_a_function_called_run_stays_as_it_is(tmp_path: Path) -> None:
    source = "def run(x):\n    return x\n"

    assert reference_text(written(tmp_path, source, "run"), ["x"]) == source


def test_arguments_are_passed_as_the_function_takes_them(tmp_path: Path) -> None:
    source = "def op(a, b=2, *, c):\n    return a, b, c\n"

    text = reference_text(written(tmp_path, source), ["a", "c"])

    assert run_of(text)(1, 3) == (1, 2, 3)


def test_another_run_is_in_the_way_only_if_the_function_needs_it(tmp_path: Path) -> None:
    idle = "def run(x):\n    return 0\n\n\ndef op(x):\n    return x\n"
    needed = "def run(x):\n    return 0\n\n\ndef op(x):\n    return run(x)\n"

    assert run_of(reference_text(written(tmp_path, idle), ["x"]))(5) == 5
    with pytest.raises(UsageError, match="has another `run`"):
        reference_text(written(tmp_path, needed), ["x"])


def test_the_only_function_needs_no_name(tmp_path: Path) -> None:
    assert (
        written(
            tmp_path, "def f(x):\n    return x\n\n\ndef get_inputs():\n    pass\n", None
        ).function
        == "f"
    )
    assert (
        written(tmp_path, "def run(x):\n    return x\n\n\ndef g():\n    pass\n", None).function
        == "run"
    )


@pytest.mark.parametrize(
    ("source", "function", "message"),
    [
        ("def f(:\n", "f", "my_ops.py:1: does not parse"),
        ("def f(x):\n    return x\n", "g", "'g' is not a function of this file; there are f"),
        ("class Model:\n    pass\n", "Model", "is a class; write a function that calls it"),
        ("async def f(x):\n    return x\n", "f", "is an async function"),
        ("def f(x):\n    pass\n\n\ndef g(x):\n    pass\n", None, "there are f, g"),
        (
            "import neighbour\n\n\ndef f(x):\n    return x\n",
            "f",
            "my_ops.py:1: imports 'neighbour'",
        ),
        ("from .deep import g\n\n\ndef f(x):\n    return x\n", "f", "imports 'deep'"),
    ],
)
def test_what_cannot_become_a_reference_is_one_message(
    tmp_path: Path, source: str, function: str | None, message: str
) -> None:
    (tmp_path / "neighbour.py").write_text("")

    with pytest.raises(UsageError) as error:
        written(tmp_path, source, function)

    assert message in str(error.value)


def test_a_missing_file_is_one_message(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*: No such file"):
        read_authors_file(tmp_path / "gone.py", "f")


def test_shapes_that_are_taken_apart_name_the_axes(tmp_path: Path) -> None:
    source = "def op(q, k, v):\n    b, _, d = q.shape\n    n, m = k.size()\n    return v.shape\n"

    assert shape_hints(written(tmp_path, source)) == {"q": ["b", "_", "d"], "k": ["n", "m"]}


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("return out", ["out"]),
        ("return out, lse", ["out", "lse"]),
        ("return out * 2", None),
        ("if x:\n        return x\n    return out", None),
        ("pass", None),
    ],
)
def test_returned_names_are_told_where_all_returns_agree(
    tmp_path: Path, body: str, names: list[str] | None
) -> None:
    assert returned_names(written(tmp_path, f"def op(x):\n    {body}\n")) == names
