"""Shapes of what recurrent networks return: computed, as running them without memory takes as long as with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

RECURRENT: Mapping[str | None, Callable[..., Any]] = {}
