"""Functions of torch that are a piece of a network each: they are opened, with public calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

OPENED: Mapping[str | None, Callable[..., Any]] = {}
