"""A package that is a function as well."""

from __future__ import annotations

import sys
from types import ModuleType

from flashinfer_bench.callable_package import make_callable


def test_a_package_called_is_its_function_called() -> None:
    package, home = ModuleType("made_up"), ModuleType("made_up.home")
    home.double = lambda number: 2 * number  # type: ignore[attr-defined]
    sys.modules |= {"made_up": package, "made_up.home": home}

    make_callable("made_up", home="made_up.home", function="double")

    assert [package(4), package(number=5)] == [8, 10]  # type: ignore[operator]
    assert package.__name__ == "made_up"
