from __future__ import annotations

import math
from typing import Any

import pytest

from flashinfer_bench.decompose.ir import (
    Dropped,
    Named,
    Op,
    OpTrace,
    Plain,
    Ref,
    Scope,
    Span,
    Value,
)
from flashinfer_bench.decompose.ir_json import trace_from_json, trace_to_json
from flashinfer_bench.errors import UsageError

SCOPES = (Scope("module", "", "Model", 0), Scope("function", "gate", "model.py:3", 1))
ARGUMENTS: list[Any] = [
    Ref("i0"), Named("dtype", "float16"), Span(None, Ref("i0"), 2), (1, (2, [3])), [1, "a", None], {"k": (1,)},
    True, 1, 1.5, math.inf, -math.inf, 1 + 2j, "ü", None,
]  # fmt: skip


def _trace(argument: Any) -> OpTrace:
    op = Op(
        7, "torch.add", (argument,), {"alpha": argument}, ("v0",), SCOPES, "m.py:3", (0, Plain(2)),
        ("cpu", "bfloat16"), is_stochastic=True, is_train=False,
    )  # fmt: skip
    values = {
        "i0": Value("i0", (2, 3), "float32", "input", "x", ("y",), (1, 2)),
        "v0": Value("v0", (), "int64", "inter", "add"),
    }
    return OpTrace(
        "m", values, (op,), ("i0",), [0, {"k": Plain(None)}], ("v0",), {"out": 0},
        (Dropped("torch.exp", SCOPES, "dead", "so"),), ("m.py:1: item() gave 2",), "real", ("note",),
    )  # fmt: skip


@pytest.mark.parametrize("argument", ARGUMENTS, ids=repr)
def test_a_trace_comes_back_as_it_was(argument: Any) -> None:
    trace = _trace(argument)

    text = trace_to_json(trace)

    assert trace_from_json(text) == trace
    assert trace_to_json(trace_from_json(text)) == text


def test_a_trace_of_another_schema_is_refused() -> None:
    text = trace_to_json(_trace(1)).replace('"schema_version": "1"', '"schema_version": "9"')

    with pytest.raises(UsageError, match="schema version '9'"):
        trace_from_json(text)
