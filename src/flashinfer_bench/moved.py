"""Names of the existing system that are elsewhere here: importing one fails with a sentence that says what serves."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def named_elsewhere(
    module: str, places: Mapping[str, str], *, otherwise: str
) -> Callable[[str], object]:
    """Make a module's `__getattr__`; `places` says by name what serves here, `otherwise` what does for other classes.

    Tools ask any module for names of their own, and take an `AttributeError` for no.
    """

    def look_up(name: str) -> object:
        if name not in places and not name[0].isupper():
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        raise ImportError(f"{module} has no {name!r} here: {places.get(name, otherwise)}")

    return look_up
