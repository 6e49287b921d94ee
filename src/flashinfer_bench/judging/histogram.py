"""How far off the elements of a wrong output are: a histogram of absolute errors by powers of ten."""

from __future__ import annotations

import torch

from flashinfer_bench.tensors.outputs import unwritten

_PIECE_ELEMENTS = 1 << 20
_LOWEST, _HIGHEST = -8, 4  # powers of ten
_WIDTH = 24
_FEWEST_ELEMENTS = 16


def error_histogram(got: torch.Tensor, expected: torch.Tensor) -> str:
    """Draw the histogram, a line per power of ten that occurs; nothing for a handful of elements."""
    if got.numel() < _FEWEST_ELEMENTS:
        return ""
    counts = _counts(got.reshape(-1), expected.reshape(-1))
    most = max(counts.values())
    lines = ["  absolute error  elements"]
    for label, count in counts.items():
        bar = "#" * max(1, round(_WIDTH * count / most))
        lines.append(f"  {label:>14}  {bar} {count}")
    return "\n".join(lines)


def _counts(got: torch.Tensor, expected: torch.Tensor) -> dict[str, int]:
    edges = torch.tensor([10.0**power for power in range(_LOWEST, _HIGHEST + 1)])
    edges = edges.to(got.device, torch.float64)
    tally = torch.zeros(len(edges) + 1, dtype=torch.int64, device=got.device)
    exact = special = never = 0
    for start in range(0, got.numel(), _PIECE_ELEMENTS):
        ours = got[start : start + _PIECE_ELEMENTS].double()
        theirs = expected[start : start + _PIECE_ELEMENTS].double()
        same = (ours == theirs) | (ours.isnan() & theirs.isnan())
        finite = ours.isfinite() & theirs.isfinite()
        exact += int(same.sum())
        left_out = unwritten(got[start : start + _PIECE_ELEMENTS])
        left = 0 if left_out is None else int((left_out & ~same).sum())
        never += left
        special += int((~finite & ~same).sum()) - left
        errors = (ours - theirs).abs()[finite & ~same]
        tally += torch.bincount(torch.bucketize(errors, edges), minlength=len(tally))
    powers = range(_LOWEST, _HIGHEST + 1)
    labels = ["none", *(f"up to 1e{power}" for power in powers), f"above 1e{_HIGHEST}"]
    found = dict(zip(labels, [exact, *tally.tolist()], strict=True))
    found["NaN, infinity"] = special
    found["never written"] = never
    return {label: count for label, count in found.items() if count}
