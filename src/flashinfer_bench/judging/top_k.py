"""The k best of a row, in any order: ties may be broken either way, a wrong index may not.

An index that the reference has too is right, and its value must be the reference's. Any other index must
be one of a tie: as good, by the scores themselves, as one of the reference's that was left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch

from flashinfer_bench.errors import DatasetError
from flashinfer_bench.judging import elementwise
from flashinfer_bench.judging.case import (
    Case,
    JudgedCall,
    JudgeVerdict,
    Outputs,
    SimpleCase,
    Tolerance,
)
from flashinfer_bench.judging.choice import judged_outputs
from flashinfer_bench.judging.outputs import floating_pairs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flashinfer_bench.data import Definition


_SHOWN = 5
_REPEATED = -(1 << 40)


@dataclass(frozen=True, slots=True)
class TopKJudge:
    """Compares rows of indices as sets, and the values that belong to them index by index."""

    outputs: tuple[str, ...]
    indices: int
    """Which output holds the indices; a negative index is padding."""
    values: int | None = None
    """Which output holds a value for each index."""
    scores: int | None = None
    """Which input the indices point into."""
    inputs: tuple[str, ...] = ()
    """Names of all inputs."""
    needs_expected: bool = True
    has_exact_outputs: bool = False
    least_outputs: int | None = None

    @classmethod
    def of(cls, definition: Definition, extra: Mapping[str, Any]) -> TopKJudge:
        """Find indices, values and scores by `top_k_indices`, `top_k_values`, `top_k_scores`, or by shape.

        By shape: the only integer output, the floating output of the same shape, and the only floating
        input that has all but the last axis of it. Raises `DatasetError` where there are no indices.
        """
        integers = [n for n, spec in definition.outputs.items() if "int" in str(spec.dtype)]
        indices = _named(extra, "top_k_indices", definition.outputs) or _only(integers)
        if indices is None:
            raise DatasetError(
                f"{definition.name}: the judge 'top_k' needs one integer output; say which with "
                f"`extra: {{top_k_indices: NAME}}` (outputs: {', '.join(definition.outputs)})"
            )
        shape = definition.outputs[indices].shape or []
        values = [
            name
            for name, spec in definition.outputs.items()
            if "float" in str(spec.dtype) and spec.shape == shape
        ]
        is_indexer = set(_INDEXER_INPUTS) <= set(definition.inputs)
        rows = [
            name
            for name, spec in definition.inputs.items()
            if not is_indexer
            and "float" in str(spec.dtype)
            and spec.shape is not None
            and len(spec.shape) == len(shape)
            and spec.shape[:-1] == shape[:-1]
        ]
        return cls(
            judged_outputs(definition),
            indices=list(definition.outputs).index(indices),
            values=_position(
                _named(extra, "top_k_values", definition.outputs) or _only(values),
                definition.outputs,
            ),
            scores=_position(
                _named(extra, "top_k_scores", definition.inputs) or _only(rows), definition.inputs
            ),
            inputs=tuple(definition.inputs),
        )

    def repeats(self, inputs: Sequence[Any]) -> int:  # noqa: ARG002
        """Ask for none: one call says all."""
        return 0

    def open_case(self, tolerance: Tolerance) -> Case:
        """Judge every call by itself."""
        return SimpleCase(self._judge_call, tolerance)

    def comparable(
        self, got: Outputs, expected: Sequence[torch.Tensor]
    ) -> list[tuple[int, torch.Tensor, torch.Tensor]]:
        """Give the floating outputs; values from the largest to the smallest, whatever their order was."""
        return [
            (number, _falling(ours), _falling(theirs))
            if number == self.values
            else (number, ours, theirs)
            for number, ours, theirs in floating_pairs(got, expected)
        ]

    def _judge_call(self, call: JudgedCall, tolerance: Tolerance) -> JudgeVerdict:
        verdict = self._judge_choice(call, tolerance)
        for number, (ours, theirs) in enumerate(zip(call.got, call.expected, strict=True)):
            if number not in (self.indices, self.values) and ours is not None:
                found = elementwise.compare(ours, theirs, tolerance)
                verdict = verdict.merged(found.placed(f"output {self.outputs[number]!r}"))
        return verdict

    def _judge_choice(self, call: JudgedCall, tolerance: Tolerance) -> JudgeVerdict:
        got, expected = call.got[self.indices], call.expected[self.indices]
        assert got is not None
        if got.numel() == 0:
            return JudgeVerdict(is_accepted=True)
        scores = self._scores_of(call, tolerance)
        values = None
        if self.values is not None:
            returned = call.got[self.values]
            assert returned is not None
            values = _as_rows(returned), _as_rows(call.expected[self.values])
        pairs = _Pairs(_as_rows(got).long(), _as_rows(expected).long(), scores, values)
        verdict = _about_indices(pairs, tolerance).placed(f"output {self.outputs[self.indices]!r}")
        if self.values is None:
            return verdict
        shape = call.expected[self.values].shape
        ours, theirs = (each.reshape(shape) for each in pairs.values())
        found = elementwise.compare(ours, theirs, tolerance)
        return verdict.merged(found.placed(f"output {self.outputs[self.values]!r}, best first"))

    def _scores_of(self, call: JudgedCall, tolerance: Tolerance) -> _Scores | None:
        if self.scores is not None:
            return _GivenScores(_as_rows(call.inputs[self.scores]))
        if set(_INDEXER_INPUTS) <= set(self.inputs):
            return IndexerScores(dict(zip(self.inputs, call.inputs, strict=True)), tolerance)
        return None


class _Pairs:
    """Each row's indices beside the reference's: equal ones first, then the best of what is left with the best."""

    def __init__(
        self,
        got: torch.Tensor,
        expected: torch.Tensor,
        scores: _Scores | None,
        values: tuple[torch.Tensor, torch.Tensor] | None,
    ) -> None:
        marked_got, marked_expected = _told_apart(got), _told_apart(expected)
        is_foreign = ~_is_in(marked_got, marked_expected)
        is_left_out = ~_is_in(marked_expected, marked_got)
        goodness = self._goodness(got, expected, scores, values)
        self._got_order = _order(marked_got, is_foreign, goodness[0])
        self._expected_order = _order(marked_expected, is_left_out, goodness[1])
        self._values = values
        self.got = got.gather(-1, self._got_order)
        self.expected = expected.gather(-1, self._expected_order)
        self.is_foreign = is_foreign.gather(-1, self._got_order)
        self.is_repeated = (marked_got < _REPEATED).gather(-1, self._got_order)
        self.is_bad = self.is_foreign & ~self._is_tie(scores, goodness)

    def values(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Give the values that belong to the pairs, (rows, k) each."""
        assert self._values is not None
        ours, theirs = self._values
        return ours.gather(-1, self._got_order), theirs.gather(-1, self._expected_order)

    @staticmethod
    def _goodness(
        got: torch.Tensor,
        expected: torch.Tensor,
        scores: _Scores | None,
        values: tuple[torch.Tensor, torch.Tensor] | None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """By what indices are ranked: their scores, or else the values returned with them."""
        if scores is not None:
            return scores.of(got), scores.of(expected)
        if values is not None:
            return values[0].double(), values[1].double()
        nothing = torch.zeros_like(got, dtype=torch.float64)
        return nothing, nothing

    def _is_tie(
        self, scores: _Scores | None, goodness: tuple[torch.Tensor, torch.Tensor]
    ) -> torch.Tensor:
        """Tell which foreign indices are as good as what they stand in for."""
        if not self.is_foreign.any():
            return self.is_foreign
        is_index = (self.got >= 0) & (self.expected >= 0) & ~self.is_repeated
        ours = goodness[0].gather(-1, self._got_order)
        theirs = goodness[1].gather(-1, self._expected_order)
        if scores is not None:
            return scores.tie(ours, theirs) & scores.are_legal(self.got) & is_index
        if self._values is None:
            return torch.zeros_like(self.is_foreign)
        # Only the reference's own row can show a tie: its smallest value occurs more than once.
        smallest = theirs.amin(-1, keepdim=True)
        is_shown = (theirs == smallest).sum(-1, keepdim=True) > 1
        return is_index & is_shown & (ours == smallest) & (theirs == smallest)


def _about_indices(pairs: _Pairs, tolerance: Tolerance) -> JudgeVerdict:
    bad_count, count = int(pairs.is_bad.sum()), pairs.got.numel()
    matched_ratio = (count - bad_count) / count
    if not bad_count:
        return JudgeVerdict(is_accepted=True)
    lines = [f"{bad_count} of {count} indices are wrong"]
    for row, column in pairs.is_bad.nonzero()[:_SHOWN].tolist():
        index, wanted = int(pairs.got[row, column]), int(pairs.expected[row, column])
        why = "occurs twice" if pairs.is_repeated[row, column] else f"is not as good as {wanted}"
        lines.append(f"  in row {row}: index {index} {why}")
    is_enough = matched_ratio >= (tolerance.required_matched_ratio or 1.0)
    return JudgeVerdict(
        is_enough,
        matched_ratio=matched_ratio,
        explanation="" if is_enough else "\n".join(lines),
    )


def _told_apart(indices: torch.Tensor) -> torch.Tensor:
    """Give repeated indices of a row names of their own: the n-th padding is −n, others lie far below."""
    ordered, order = indices.sort(dim=-1, stable=True)
    place = torch.arange(indices.shape[-1], device=indices.device).expand_as(indices)
    repeated = torch.zeros_like(ordered, dtype=torch.bool)
    repeated[:, 1:] = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    marked = torch.where(repeated, _REPEATED - 1 - place, ordered)
    marked = torch.where(ordered < 0, -1 - place, marked)  # paddings come first when sorted
    return torch.empty_like(marked).scatter_(-1, order, marked)


def _is_in(these: torch.Tensor, those: torch.Tensor) -> torch.Tensor:
    """Tell which elements of a row occur in the other tensor's row."""
    ordered = those.sort(dim=-1).values
    place = torch.searchsorted(ordered, these).clamp(max=those.shape[-1] - 1)
    return ordered.gather(-1, place) == these


def _order(
    indices: torch.Tensor, is_unmatched: torch.Tensor, goodness: torch.Tensor
) -> torch.Tensor:
    """Order a row: what both rows have, by index; then the rest, the best first."""
    by_index = indices.argsort(dim=-1)
    worst_first = torch.where(is_unmatched, -goodness, float("-inf")).gather(-1, by_index)
    return by_index.gather(-1, worst_first.argsort(dim=-1, stable=True))


def _falling(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.sort(dim=-1, descending=True).values


def _as_rows(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(-1, tensor.shape[-1])


def _only(names: Sequence[str]) -> str | None:
    return names[0] if len(names) == 1 else None


def _named(extra: Mapping[str, Any], key: str, known: Mapping[str, Any]) -> str | None:
    name = extra.get(key)
    if name is not None and name not in known:
        raise DatasetError(f"{key} names {name!r}; there are {', '.join(known)}")
    return name


def _position(name: str | None, names: Mapping[str, Any]) -> int | None:
    return None if name is None else list(names).index(name)


_TIE_STEPS = 16.0
"""Scores tie when they differ by no more than so many steps of their dtype at the row's largest magnitude."""
_SMALL = 1e-8
_SCALE_BYTES = 4

_INDEXER_INPUTS = ("q_index_fp8", "k_index_cache_fp8", "weights", "seq_lens", "block_table")
"""Inputs of a sparse-attention indexer in the dataset format, whose scores are computed inside."""


class _Scores(Protocol):
    """Knows the scores of a call's rows; indices are (rows, k)."""

    def of(self, indices: torch.Tensor) -> torch.Tensor:
        """Give scores in float64; of an index that is not legal, any number."""

    def are_legal(self, indices: torch.Tensor) -> torch.Tensor:
        """Tell which indices may be chosen in their row."""

    def tie(self, ours: torch.Tensor, theirs: torch.Tensor) -> torch.Tensor:
        """Tell which scores are as good as equal."""


@dataclass(frozen=True, slots=True)
class _GivenScores:
    """Scores that are an input, (rows, n): only rounding before the choice is forgiven."""

    scores: torch.Tensor

    def of(self, indices: torch.Tensor) -> torch.Tensor:
        """Look them up."""
        return self.scores.gather(-1, indices.clamp(0, self.scores.shape[-1] - 1)).double()

    def are_legal(self, indices: torch.Tensor) -> torch.Tensor:
        """Accept any index of the row."""
        return (indices >= 0) & (indices < self.scores.shape[-1])

    def tie(self, ours: torch.Tensor, theirs: torch.Tensor) -> torch.Tensor:
        """Allow what a softmax in the scores' dtype can round away."""
        finite = torch.where(self.scores.isfinite(), self.scores.abs(), 0.0)
        step = torch.finfo(self.scores.dtype).eps * finite.amax(-1, keepdim=True).double()
        return ((ours - theirs).abs() <= _TIE_STEPS * step) | (ours == theirs)


class IndexerScores:
    """Scores of a paged indexer: Σ over heads of weight × ReLU(q · k), keys in eight bits with a scale each.

    A page of the cache holds the float8 keys of all its tokens and then their float32 scales. An index names a
    token of the cache: page × page size + place. Scores are compared within the tolerance, for every kernel
    adds up in an order of its own.
    """

    def __init__(self, inputs: Mapping[str, Any], tolerance: Tolerance) -> None:
        queries, cache = inputs["q_index_fp8"], inputs["k_index_cache_fp8"]
        self._tolerance = tolerance
        self._queries = queries.float()
        self._weights = inputs["weights"].float()
        self._lengths = inputs["seq_lens"].long()
        self._table = inputs["block_table"].long()
        pages, page_size, width = cache.shape[0], cache.shape[1], queries.shape[-1]
        raw = cache.contiguous().view(torch.uint8).reshape(pages, -1)
        keys, scales = raw[:, : page_size * width], raw[:, page_size * width :]
        self._keys = keys.contiguous().view(torch.float8_e4m3fn).view(-1, width)
        scales = scales[:, : page_size * _SCALE_BYTES].contiguous()
        self._scales = scales.view(torch.float32).reshape(-1)
        self._page_size = page_size

    def of(self, indices: torch.Tensor) -> torch.Tensor:
        """Compute them, row by row: the keys of all rows together need not fit."""
        return torch.stack([self._row(row, indices[row]) for row in range(len(indices))])

    def are_legal(self, indices: torch.Tensor) -> torch.Tensor:
        """Accept tokens of the sequence's own pages that lie before its end."""
        return torch.stack([self._own(row, indices[row]) for row in range(len(indices))])

    def tie(self, ours: torch.Tensor, theirs: torch.Tensor) -> torch.Tensor:
        """Allow what the tolerance allows an element."""
        off = (ours - theirs).abs()
        is_close = off <= self._tolerance.atol
        return is_close | (off / (theirs.abs() + _SMALL) <= self._tolerance.rtol) | (ours == theirs)

    def _row(self, row: int, tokens: torch.Tensor) -> torch.Tensor:
        tokens = tokens.clamp(0, len(self._keys) - 1)
        keys = self._keys[tokens].float() * self._scales[tokens, None]
        heads = torch.relu(keys @ self._queries[row].t())
        scores: torch.Tensor = (heads @ self._weights[row]).double()
        return scores

    def _own(self, row: int, tokens: torch.Tensor) -> torch.Tensor:
        length = int(self._lengths[row])
        pages = self._table[row, : -(-length // self._page_size)]
        places = torch.arange(self._page_size, device=pages.device)
        own = (pages[:, None] * self._page_size + places).reshape(-1)[:length]
        return torch.isin(tokens, own)
