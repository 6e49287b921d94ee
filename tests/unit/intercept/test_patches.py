"""Patches are there while somebody wants them, and nothing is left of them afterwards."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from flashinfer_bench.errors import UsageError
from flashinfer_bench.intercept import Adapter, Call, Chain, Link, Patches, Proceed, Rank
from flashinfer_bench.intercept.registry import Adapters

LIBRARY = """
def double(value):
    return 2 * value

class Base:
    def forward(self, value):
        return value + 1

class Layer(Base):
    @staticmethod
    def scale(value):
        return 10 * value
"""


class Hundred:
    """Answers every call with a hundred."""

    def link(self, name: str) -> Link:
        def link(args: tuple[Any, ...], kwargs: Mapping[str, Any], proceed: Proceed) -> Any:
            return 100

        return link

    def find(self, call: Call) -> str | None:
        return "hundred"


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "made_up_library.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("made_up_library", None)


@pytest.fixture
def chain() -> Chain:
    chain = Chain()
    chain.set(Rank.APPLY, Hundred())
    return chain


def reading(*args: Any) -> Call:
    return Call(args, frozenset())


def adapter(path: str, **more: Any) -> Adapter:
    return Adapter(f"made_up_library:{path}", more.pop("read", reading), **more)


def test_a_function_is_intercepted_until_its_patch_is_removed(library: None, chain: Chain) -> None:
    import made_up_library  # type: ignore[import-not-found]

    original = made_up_library.double
    patches = Patches(chain)
    held = patches.install([adapter("double")])
    during = made_up_library.double(3)
    patches.remove(held)

    assert during == 100
    assert made_up_library.double is original


def test_a_patch_stays_while_anybody_holds_it_in_any_order(library: None, chain: Chain) -> None:
    import made_up_library

    original, patches, double = made_up_library.double, Patches(chain), adapter("double")
    first, second = patches.install([double]), patches.install([double])

    patches.remove(first)
    between = made_up_library.double(3)
    patches.remove(second)

    assert between == 100
    assert made_up_library.double is original


def test_with_an_empty_chain_a_patched_function_is_the_original(library: None) -> None:
    import made_up_library

    patches = Patches(Chain())
    held = patches.install([adapter("double")])

    assert made_up_library.double(3) == 6
    patches.remove(held)


def test_what_an_adapter_leaves_alone_or_cannot_read_is_the_originals(
    library: None, chain: Chain, caplog: pytest.LogCaptureFixture
) -> None:
    import made_up_library

    def fail(value: object) -> Call:
        raise AttributeError("no such thing")

    patches = Patches(chain)
    for read in (lambda value: None, fail):
        held = patches.install([adapter("double", read=read)])
        assert [made_up_library.double(each) for each in (3, 4)] == [6, 8]
        patches.remove(held)

    assert caplog.text.count("no such thing") == 1


def test_an_inherited_method_is_patched_on_its_class_only(library: None, chain: Chain) -> None:
    import made_up_library

    patches = Patches(chain)
    held = patches.install([adapter("Layer.forward"), adapter("Layer.scale")])
    during = [
        made_up_library.Layer().forward(1),
        made_up_library.Base().forward(1),
        made_up_library.Layer.scale(1),
        made_up_library.Layer().scale(1),
    ]
    patches.remove(held)

    assert during == [100, 2, 100, 100]
    assert "forward" not in vars(made_up_library.Layer)
    assert made_up_library.Layer().scale(1) == 10


def test_a_name_imported_before_the_start_is_patched_too(library: None, chain: Chain) -> None:
    import made_up_library

    user = ModuleType("a_users_module")
    user.double = made_up_library.double  # type: ignore[attr-defined]
    sys.modules["a_users_module"] = user
    patches = Patches(chain)

    held = patches.install([adapter("double")])
    during = user.double(3)
    patches.remove(held)

    assert [during, user.double(3)] == [100, 6]
    del sys.modules["a_users_module"]


def test_a_module_imported_after_the_start_is_patched_then(library: None, chain: Chain) -> None:
    finders = list(sys.meta_path)
    patches = Patches(chain)
    held = patches.install([adapter("double")])
    before = patches.installed()

    import made_up_library

    assert before == []
    assert made_up_library.double(3) == 100
    assert made_up_library.__spec__.loader is made_up_library.__loader__
    patches.remove(held)
    assert made_up_library.double(3) == 6
    assert sys.meta_path == finders


def test_a_module_that_never_comes_leaves_nothing_behind(chain: Chain) -> None:
    finders = list(sys.meta_path)
    patches = Patches(chain)

    patches.remove(patches.install([Adapter("no_such_package.at_all:f", reading)]))

    assert sys.meta_path == finders


def test_a_function_the_library_does_not_have_is_passed_over(library: None, chain: Chain) -> None:
    import made_up_library  # noqa: F401

    patches = Patches(chain)
    held = patches.install([adapter("gone"), adapter("Layer.gone")])

    assert patches.installed() == []
    patches.remove(held)


def test_what_somebody_else_patched_since_stays_theirs(
    library: None, chain: Chain, caplog: pytest.LogCaptureFixture
) -> None:
    import made_up_library

    patches = Patches(chain)
    held = patches.install([adapter("double")])
    theirs = made_up_library.double = lambda value: 0

    patches.remove(held)

    assert made_up_library.double is theirs
    assert "double" in caplog.text


def test_nothing_is_intercepted_inside_a_solution(library: None, chain: Chain) -> None:
    import made_up_library

    patches = Patches(chain)
    held = patches.install([adapter("double")])
    chain.inside.solution = True

    assert made_up_library.double(3) == 6
    patches.remove(held)


def test_an_adapter_hears_what_it_observes_before_the_call(library: None, chain: Chain) -> None:
    import made_up_library

    heard: list[int] = []
    patches = Patches(chain)
    held = patches.install([adapter("double", observe=heard.append, read=lambda value: None)])

    assert made_up_library.double(3) == 6
    assert heard == [3]
    patches.remove(held)


def test_registering_twice_needs_override_and_a_target_must_be_one() -> None:
    adapters = Adapters()
    adapters.add(adapter("double"))

    with pytest.raises(UsageError, match="override=True"):
        adapters.add(adapter("double"))
    with pytest.raises(UsageError, match="no target"):
        adapters.add(Adapter("made_up_library.double", reading))
    adapters.add(adapter("double", op_types=frozenset({"gemm"})), override=True)

    assert [each.target for each in adapters.wanted(["gemm"])] == ["made_up_library:double"]
    assert adapters.wanted(["rope"]) == []
