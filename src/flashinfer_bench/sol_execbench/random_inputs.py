"""What SOL-ExecBench draws where an input is random: its name and description decide, then its dtype."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from flashinfer_bench.data.distributions import FloatForm, Normal, Probabilities, Uniform

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.data.distributions import Distribution

_WIDE = frozenset({"float64", "float32", "float16", "bfloat16"})
_MASKS = frozenset({"x_mask", "text_mask", "aspect_ratio_mask", "drop_mask", "attention_mask"})
_BINARY = ("binary", "{0, 1}", "0 or 1", "1.0 for valid", "0.0 for masked")
_SOFTMAX = frozenset({"attn_weights", "attention_weights", "routing_weights"})
_RANGES = {"A_log": (-5.0, -1.0), "A": (-1.0, -0.001), "g": (-5.0, 0.0)}
_NORM = re.compile(r"(^|.*_)?\w*norm\d*_(weight|bias)")
_POSITIVE = re.compile(r"(.*_)?(rstd|std|variance|var)")
_WEIGHT = re.compile(
    r"weight|.*_(weights?|projs?|proj_weights?|weight_matrix)",
)


def drawn_there(
    name: str, shape: Sequence[int] | None, dtype: str, description: str | None, op_type: str | None
) -> Distribution | None:
    """Give the distribution that stands for their rule; None where only the dtype decides, as it does here."""
    if dtype not in _WIDE:
        return None
    if op_type == "sampling" and name == "probs" and shape:
        return Probabilities()
    found = _by_name(name, shape or (), (description or "").lower())
    if found is None or shape is not None or isinstance(found, Normal | Uniform):
        return found
    return None  # a scalar of a form: drawn by its dtype


def _by_name(name: str, shape: Sequence[int], said: str) -> Distribution | None:
    is_matrix = len(shape) > 1
    if norm := _NORM.fullmatch(name):
        return FloatForm(form="ones" if norm[2] == "weight" else "zeros")
    is_causal = name in {"attention_mask", "causal_mask"} or (
        "attention mask" in said and "causal" in said
    )
    if is_matrix and shape[-1] == shape[-2] and is_causal:
        return FloatForm(form="causal_mask")
    if name in _MASKS or (name.endswith("_mask") and any(word in said for word in _BINARY)):
        return FloatForm(form="zero_or_one")
    for form in ("cosine", "sine"):
        short = form[:3]
        if name in {short, f"{short}_cached", f"rope_{short}"}:
            return FloatForm(form="cosine" if form == "cosine" else "sine")
    bare = name.rstrip("0123456789")
    if _POSITIVE.fullmatch(name) or (bare != name and _POSITIVE.fullmatch(bare)):
        return FloatForm(form="positive")
    if name == "A_cumsum" and shape:
        return FloatForm(form="decay")
    if name in _RANGES:
        low, high = _RANGES[name]
        return Uniform(low=low, high=high)
    if shape and (name in _SOFTMAX or ("softmax" in said and "output" in said)):
        return Probabilities()
    if is_matrix and (_WEIGHT.fullmatch(name) or _WEIGHT.fullmatch(bare)) and shape[-1]:
        return Normal(std=1 / math.sqrt(shape[-1]))
    return None
