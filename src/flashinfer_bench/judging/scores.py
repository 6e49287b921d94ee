"""How good an index of a top-k output is, by the scores it was chosen for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flashinfer_bench.judging.verdict import Tolerance

_TIE_STEPS = 16.0
"""Scores tie when they differ by no more than so many steps of their dtype at the row's largest magnitude."""
_SMALL = 1e-8
_SCALE_BYTES = 4

INDEXER_INPUTS = ("q_index_fp8", "k_index_cache_fp8", "weights", "seq_lens", "block_table")
"""Inputs of a sparse-attention indexer in the dataset format, whose scores are computed inside."""


class Scores(Protocol):
    """Knows the scores of a call's rows; indices are (rows, k)."""

    def of(self, indices: torch.Tensor) -> torch.Tensor:
        """Give scores in float64; of an index that is not legal, any number."""

    def are_legal(self, indices: torch.Tensor) -> torch.Tensor:
        """Tell which indices may be chosen in their row."""

    def tie(self, ours: torch.Tensor, theirs: torch.Tensor) -> torch.Tensor:
        """Tell which scores are as good as equal."""


@dataclass(frozen=True, slots=True)
class GivenScores:
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
