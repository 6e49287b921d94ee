"""What holds for all tests; and `--fast`, which leaves out whatever needs torch, scipy or another process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
from hypothesis import HealthCheck, settings

from tests.warm import warm_servers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

# How long an example takes says how busy the machine is, and nothing about what is tested.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's `&` says so; tests send it
    signal.signal(signal.SIGINT, signal.default_int_handler)


class NoHeavyImports:
    """Skips a test, or a whole file, at the moment that it imports what takes seconds to import."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if name in {"torch", "scipy"}:
            forget_half_imported()
            pytest.skip(f"it needs {name}", allow_module_level=True)
        return None


def forget_half_imported() -> None:
    """Take modules whose import ends here out of the list of those that are there."""
    frame = sys._getframe()
    while frame is not None:
        is_imported = frame.f_globals["__name__"] != "__main__"
        if frame.f_code.co_name == "<module>" and is_imported:
            sys.modules.pop(frame.f_globals["__name__"], None)
        frame = frame.f_back


def no_process(*_: Any, **__: Any) -> NoReturn:
    """Stand where a process would be started."""
    pytest.skip("it starts a process", allow_module_level=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--fast", action="store_true", help="skip what needs torch, scipy or a process"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    if not session.config.getoption("--fast"):
        return
    sys.meta_path.insert(0, NoHeavyImports())
    os.fork = no_process
    os.posix_spawn = no_process
    subprocess.Popen.__init__ = no_process  # type: ignore[method-assign]  # for as long as these tests run


@pytest.fixture(scope="session", autouse=True)
def _warm_servers(request: pytest.FixtureRequest) -> Iterator[None]:
    """Runs in this process start at once; those of a command that is a process start as people's do."""
    if request.config.getoption("--fast"):
        yield
        return
    with warm_servers():
        yield


@pytest.fixture(scope="session", autouse=True)
def _own_locks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Two tests at a time need not wait for each other's device: times do not count there."""
    with pytest.MonkeyPatch.context() as patch:
        if "PYTEST_XDIST_WORKER" in os.environ:
            folder = tmp_path_factory.mktemp("locks")
            patch.setattr("flashinfer_bench.data.settings.lock_folder", lambda: folder)
        yield
