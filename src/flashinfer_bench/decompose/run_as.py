"""How a model is run to be taken apart: its mode, its dtype, its phase and its cache. Plain data without torch."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

Mode = Literal["eval", "train"]
Phase = Literal["prefill", "decode"]
CacheKind = Literal["dynamic", "static"]
RunDType = Literal["float64", "float32", "bfloat16", "float16"]
PHASES: tuple[Phase, ...] = get_args(Phase)
DTYPES: tuple[RunDType, ...] = get_args(RunDType)


@dataclass(frozen=True)
class RunAs:
    """How a model's file is run, where it is not run as it is written."""

    mode: Mode | None = None
    """None: evaluation mode for models of `transformers`; others stay as their constructor leaves them."""
    dtype: RunDType | None = None
    """The default dtype of the constructor, and the dtype of inputs that are `float32`."""
    phase: Phase | None = None
    """One step of a model that generates text, with its cache among inputs and outputs."""
    cache: CacheKind = "dynamic"

    def __bool__(self) -> bool:
        """Tell whether anything was asked for."""
        return self != RunAs()

    def said(self) -> dict[str, Any]:
        """Give what was asked for as plain data."""
        plain = RunAs()
        found = {
            name: value for name, value in asdict(self).items() if value != getattr(plain, name)
        }
        return found | ({"cache": self.cache} if self.phase else {})
