"""From a wrong call to a diagnosis: measure, apply the rules, and try what a faulty kernel would have given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from flashinfer_bench.judging.altered_references import Alteration, alterations
from flashinfer_bench.judging.cause_rules import (
    Symptoms,
    cause_of,
    is_blank,
    is_unsteady,
    suspected,
)
from flashinfer_bench.judging.diagnosis import Diagnosis, RepeatedCall, SuspectedCause
from flashinfer_bench.judging.hypotheses import (
    AlteredInputs,
    NamedInput,
    altered_inputs,
    explained_share,
    predicted_outputs,
)
from flashinfer_bench.judging.wrong_values import WrongOutput, measured, wrong_elements

if TYPE_CHECKING:
    from flashinfer_bench.data import Definition
    from flashinfer_bench.judging.case import Outputs, Tolerance

_LEAST_EXPLAINED = 0.6
_MOST_CAUSES = 4
_MOST_SIZES = 3
_A_PAIR = 2

RunOther = Callable[[Callable[..., Any] | None, Sequence[Any]], "list[torch.Tensor] | None"]
"""Runs an altered reference, or the reference itself, on arguments; None where it does not give outputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongCall:
    """One call whose outputs were found wrong, with all that is known of it."""

    definition: Definition
    outputs: tuple[str, ...]
    """Names of what is judged: the outputs, then inputs that are written into."""
    inputs: Sequence[Any]
    got: Outputs
    expected: Sequence[torch.Tensor]
    tolerance: Tolerance
    place: str
    again: Outputs | None = None
    """What the same call gave when it was made once more."""
    repeated: RepeatedCall | None = None
    """Why there is none."""
    earlier: Sequence[torch.Tensor] = ()
    """What was expected of an earlier call."""


def diagnose(
    call: WrongCall, run: RunOther, has_time: Callable[[], bool] = lambda: True
) -> Diagnosis | None:
    """Say what is wrong with a call, and why that may be; None where no element is off by the tolerance."""
    wrong = _wrong_outputs(call)
    if not wrong:
        return None
    first = next(iter(wrong.values()))
    values = measured(first, place=call.place, tolerance=call.tolerance, repeated=call.repeated)
    causes = suspected(Symptoms(values, first, _numbers(call)))
    tried = left_out = 0
    if not is_blank(values) and not is_unsteady(values):
        found, tried, left_out = _explained(call, wrong, run, has_time)
        causes += found
    ordered = sorted(causes, key=lambda cause: -cause.score)
    best = list({cause.code: cause for cause in reversed(ordered)}.values())
    best.sort(key=lambda cause: -cause.score)
    return Diagnosis(values, tuple(best[:_MOST_CAUSES]), tried, left_out)


def _wrong_outputs(call: WrongCall) -> dict[int, WrongOutput]:
    found = {}
    for number, (got, expected) in enumerate(zip(call.got, call.expected, strict=False)):
        if got is None or got.shape != expected.shape or not got.numel():
            continue
        if got.dtype.is_floating_point and got.dtype.itemsize == 1:
            got, expected = got.float(), expected.float()  # noqa: PLW2901  # few operations know them
        bad = wrong_elements(got, expected, call.tolerance)
        if bool(bad.any()):
            name = call.outputs[number]
            axes = _axes_of(call.definition, name, got.dim())
            again = None if call.again is None else call.again[number]
            found[number] = WrongOutput(name, axes, got, expected, bad, again)
    return found


def _axes_of(definition: Definition, name: str, dimensions: int) -> tuple[str, ...]:
    spec = definition.outputs.get(name) or definition.inputs[name]
    shape = tuple(spec.shape or ())
    return shape if len(shape) == dimensions else tuple(f"axis {i}" for i in range(dimensions))


def _numbers(call: WrongCall) -> dict[str, float]:
    """Name what a factor may be made of: lengths of axes, and scalars."""
    found: dict[str, float] = {}
    for (name, spec), value in zip(call.definition.inputs.items(), call.inputs, strict=True):
        if isinstance(value, torch.Tensor) and spec.shape and len(spec.shape) == value.dim():
            found |= dict(zip(spec.shape, map(float, value.shape), strict=True))
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found[name] = float(value)
    return found


# ---------------------------------------------------------------- what explains the outputs


def _explained(
    call: WrongCall, wrong: dict[int, WrongOutput], run: RunOther, has_time: Callable[[], bool]
) -> tuple[list[SuspectedCause], int, int]:
    """Compare what came back with what each fault would give, the likely ones first."""
    found, tried = list(_written_otherwise(call, wrong)), 0
    first = next(iter(wrong.values()))
    rows = first.got.shape[-2] if first.got.dim() > 1 else 1
    candidates = sorted(_candidates(call), key=lambda each: -each.likely)
    for each in candidates:
        if not has_time():
            break
        tried += 1
        produced = _produced(each, call, run, rows)
        if produced is None:
            continue
        share = _share(produced, wrong, call.tolerance)
        if share >= _LEAST_EXPLAINED:
            found.append(_suspected(each, share))
    return found, tried, len(candidates) - tried


def _candidates(call: WrongCall) -> Iterator[Alteration | AlteredInputs]:
    definition = call.definition
    named = [
        NamedInput(name, value, tuple(spec.shape or ()))
        for (name, spec), value in zip(definition.inputs.items(), call.inputs, strict=True)
    ]
    tensors = [each.name for each in named if isinstance(each.value, torch.Tensor)]
    sizes = {size for each in named if isinstance(each.value, torch.Tensor) for size in each.value.shape}  # fmt: skip
    largest = sorted(sizes, reverse=True)[:_MOST_SIZES]
    yield from alterations(definition.reference, tensors, [size for size in largest if size > 1])
    axes = [tuple(spec.shape or ()) for spec in definition.outputs.values()]
    yield from altered_inputs(named, axes)


def _produced(
    each: Alteration | AlteredInputs, call: WrongCall, run: RunOther, rows: int
) -> list[torch.Tensor] | None:
    if isinstance(each, AlteredInputs):
        produced = run(None, each.arguments)
        if produced is None or each.rewritten is None:
            return produced
        return [each.rewritten(output) for output in produced]
    try:
        function = each.function(rows=rows)
    except Exception:  # noqa: BLE001  # an altered source may raise anything, and then is no candidate
        return None
    return run(function, call.inputs)


def _share(
    produced: Sequence[torch.Tensor], wrong: dict[int, WrongOutput], tolerance: Tolerance
) -> float:
    """Give the share that is explained of the output that is explained worst."""
    return min(
        explained_share(output, produced[number], tolerance) if number < len(produced) else 0.0
        for number, output in wrong.items()
    )


def _suspected(each: Alteration | AlteredInputs, share: float) -> SuspectedCause:
    what = "the reference with" if isinstance(each, Alteration) else "the reference on inputs with"
    seen = f"{what} {each.text} explains {share:.1%} of the wrong elements"
    evidence = {"as_if": each.text, "explained": round(share, 4)}
    return cause_of(each.cause, _score(share, each.likely), seen, evidence)


def _score(share: float, likely: float) -> float:
    """Weigh a prediction: one that explains nine of ten elements is most often another fault's neighbour."""
    return share**4 * (0.9 + 0.1 * likely)


def _written_otherwise(call: WrongCall, wrong: dict[int, WrongOutput]) -> Iterator[SuspectedCause]:
    """Try every way in which the first output may have been written; and outputs of an earlier call."""
    number, output = next(iter(wrong.items()))
    for each in predicted_outputs(output):
        share = explained_share(output, each.output, call.tolerance, only_bad=True)
        if share >= _LEAST_EXPLAINED:
            seen = f"{each.text}: that explains {share:.1%} of the wrong elements"
            evidence = {"as_if": each.text, "explained": round(share, 4)}
            yield cause_of(each.cause, _score(share, each.likely), seen, evidence)
    if len(wrong) == len(call.expected) == _A_PAIR:
        yield from _swapped_outputs(call, wrong)
    if number < len(call.earlier) and call.earlier[number].shape == output.got.shape:
        share = explained_share(output, call.earlier[number], call.tolerance)
        if share >= _LEAST_EXPLAINED:
            seen = f"{share:.1%} of the wrong elements are those of the first call of the trial"
            yield cause_of("stale_state", share, seen, {"explained": round(share, 4)})


def _swapped_outputs(call: WrongCall, wrong: dict[int, WrongOutput]) -> Iterator[SuspectedCause]:
    one, two = (replace(each) for each in wrong.values())
    if one.got.shape != two.got.shape:
        return
    share = min(
        explained_share(one, two.expected, call.tolerance),
        explained_share(two, one.expected, call.tolerance),
    )
    if share >= _LEAST_EXPLAINED:
        seen = f"{one.name} holds what is expected of {two.name}, and the other way round"
        yield cause_of("swapped_operands", share, seen, {"explained": round(share, 4)})
