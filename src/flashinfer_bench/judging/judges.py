"""The judges by name, made for one definition; `docs/judges.md` describes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from flashinfer_bench.judging.case import Judge
from flashinfer_bench.judging.choice import SUMMED_RATIO, judge_name, judged_outputs
from flashinfer_bench.judging.exact import compare_bits
from flashinfer_bench.judging.outputs import LOW_BIT_RATIO, OutputJudge, compare_low_bit
from flashinfer_bench.judging.sampling import SamplingJudge
from flashinfer_bench.judging.summed import SummedBound
from flashinfer_bench.judging.top_k import TopKJudge

if TYPE_CHECKING:
    from flashinfer_bench.data import Definition

MakeJudge = Callable[["Definition", Mapping[str, Any]], Judge]


def judge_for(definition: Definition, extra: Mapping[str, Any] | None = None) -> Judge:
    """Make the judge of a definition; `extra` holds its parameters. `DatasetError` names what does not fit."""
    return JUDGES[judge_name(definition)](definition, extra or {})


def _elementwise(definition: Definition, _: Mapping[str, Any]) -> Judge:
    return OutputJudge(judged_outputs(definition), has_exact_outputs=_has_integers(definition))


def _exact(definition: Definition, _: Mapping[str, Any]) -> Judge:
    return OutputJudge(judged_outputs(definition), compare_bits, has_exact_outputs=True)


def _low_bit(definition: Definition, _: Mapping[str, Any]) -> Judge:
    return OutputJudge(
        judged_outputs(definition),
        compare_low_bit,
        has_exact_outputs=_has_integers(definition),
        matched_ratio=LOW_BIT_RATIO,
    )


def _sparse_attention(definition: Definition, _: Mapping[str, Any]) -> Judge:
    """Only the first output must be there: kernels leave out the log-sum-exp that nobody asked for."""
    return OutputJudge(
        judged_outputs(definition),
        has_exact_outputs=_has_integers(definition),
        least_outputs=1,
    )


def _has_integers(definition: Definition) -> bool:
    specs = definition.inputs | definition.outputs
    return any("float" not in str(specs[name].dtype) for name in judged_outputs(definition))


def _summed(definition: Definition, extra: Mapping[str, Any]) -> Judge:
    cap = extra.get("absolute_error_cap")
    bound = SummedBound(cap, allows_negative_inf=bool(extra.get("allow_negative_inf", False)))
    return OutputJudge(judged_outputs(definition), bound, matched_ratio=SUMMED_RATIO)


JUDGES: Mapping[str, MakeJudge] = {
    "elementwise": _elementwise,
    "exact": _exact,
    "low_bit": _low_bit,
    "sampling": SamplingJudge.of,
    "sparse_attention": _sparse_attention,
    "summed": _summed,
    "top_k": TopKJudge.of,
}
