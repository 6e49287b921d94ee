"""The part of an emitted file that tests it: expected shapes and dtypes, and `run_tests`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from flashinfer_bench.decompose.emit.constancy import constant_outputs
from flashinfer_bench.decompose.emit.legal import picks_by_value

if TYPE_CHECKING:
    from flashinfer_bench.decompose.ir import OpTrace
    from flashinfer_bench.decompose.pieces import Piece

_RUN = '''
def run_tests(device="cpu"):
    """Run twice on the same inputs and once on others; raise AssertionError for what is wrong."""
    model = Model(*get_init_inputs()).to(device)
    given = [[each.to(device) for each in get_inputs(seed)] for seed in (0, 0, 1)]
    outputs = []
    for seed, inputs in zip((0, 0, 1), given):
        torch.manual_seed(seed)
        with torch.no_grad():
            made = model(*inputs)
        outputs.append(made if isinstance(made, tuple) else (made,))
    for at, (before, after) in enumerate(zip(get_inputs(0), given[0])):
        same = torch.equal(torch.nan_to_num(before), torch.nan_to_num(after.cpu()))
        assert same, f"input {at} was changed"
    shapes = [list(each.shape) for each in outputs[0]]
    %s
    dtypes = [each.dtype for each in outputs[0]]
    assert dtypes == OUTPUT_DTYPES, f"dtypes {dtypes}"
    for at, (first, again, other) in enumerate(zip(*outputs)):
        assert torch.equal(first, again), f"output {at} differs from run to run"
        if first.is_floating_point():
            %s
            varies = first.numel() == 0 or not torch.equal(first, other)
            assert varies or at in CONSTANT_OUTPUTS, f"output {at} is constant"


if __name__ == "__main__":
    try:
        run_tests()
    except AssertionError as fault:
        print(f"FAIL: {fault}")
        raise SystemExit(1) from None
    print("PASS")
'''
_FINITE = 'assert torch.isfinite(first).all(), f"output {at} is not finite"'
_SHAPES = 'assert shapes == get_expected_output_shape(), f"shapes {shapes}"'
_RANKS = """ranks = [len(shape) for shape in shapes]  # what is picked by value may be more or less
    assert ranks == [len(each) for each in get_expected_output_shape()], f"shapes {shapes}\""""
_NO_NAN = 'assert not torch.isnan(first).any(), f"output {at} is not a number"'


def test_part(trace: OpTrace, piece: Piece) -> list[str]:
    """Write what follows the inputs: shapes, dtypes, the test and the main part."""
    values = [trace.values[value] for value in piece.form.outputs]
    shapes = ", ".join(str(list(value.shape)) for value in values)
    dtypes = ", ".join(f"torch.{value.dtype}" for value in values)
    picks = any(picks_by_value(trace, op) for op in piece.form.ops)
    shape_test = _RANKS if picks and len(piece.form.ops) > 1 else _SHAPES
    return [
        f"OUTPUT_DTYPES = [{dtypes}]",
        f"CONSTANT_OUTPUTS = {constant_outputs(trace, piece.form.ops, piece.form.outputs)}",
        "",
        "",
        "def get_init_inputs():",
        '    """Give the arguments of Model: none."""',
        "    return []",
        "",
        "",
        "def get_expected_output_shape():",
        '    """Give the shape of each output."""',
        f"    return [{shapes}]",
        "",
        *(_RUN % (shape_test, _NO_NAN if _has_infinity(piece) else _FINITE)).rstrip().split("\n"),
    ]


def _has_infinity(piece: Piece) -> bool:
    """Tell whether a piece writes infinities itself, as masks do."""
    return any(_is_infinite((op.args, dict(op.kwargs))) for op in piece.form.ops)


def _is_infinite(argument: Any) -> bool:
    match argument:
        case float():
            return math.isinf(argument)
        case tuple() | list():
            return any(_is_infinite(each) for each in argument)
        case dict():
            return any(_is_infinite(each) for each in argument.values())
        case _:
            return False
