from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from flashinfer_bench.bench.tools import doctor
from flashinfer_bench.bench.tools.doctor import examine, torch_cuda
from flashinfer_bench.bench.tools.noise import DeviceBusyError, NoiseFloor, noise_in_this_process
from flashinfer_bench.compile.builder import BUILDERS
from flashinfer_bench.errors import DeviceError
from flashinfer_bench.tensors import system

QUIET = NoiseFloor("worker processes", 1.0, (0.99, 1.01), 0.01, 6, 0.1)


def raising(error: Exception) -> object:
    def measure(device: str, *, threads: int) -> NoiseFloor:
        raise error

    return measure


def test_every_language_and_binding_is_looked_at() -> None:
    found = examine(measures_noise=False)

    assert {(each.language, each.binding) for each in found.languages} == set(BUILDERS)
    assert found.noise is None


def test_looking_a_machine_over_loads_no_torch() -> None:
    code = (
        "import sys; from flashinfer_bench.bench.tools.doctor import examine; "
        "examine(measures_noise=False); print('torch' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"


def test_a_busy_device_is_no_broken_one(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    busy = DeviceBusyError("cpu is in use by another benchmark")
    monkeypatch.setattr(doctor, "noise_in_workers", raising(busy))

    found = examine()

    assert found.can_run
    assert found.noise_failure == "cpu is in use by another benchmark"
    assert found.noise is not None
    assert found.noise.where == "this process"


def test_a_kernel_that_cannot_be_run_means_that_nothing_can(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(doctor, "noise_in_workers", raising(DeviceError("no memory")))

    found = examine()

    assert not found.can_run
    assert "a kernel could not be timed: no memory" in found.advice


def test_a_missing_compiler_comes_with_the_command_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)

    found = examine(measures_noise=False)

    (cpp,) = (
        each for each in found.languages if (each.language, each.binding) == ("cpp", "tvm-ffi")
    )
    assert cpp.missing is not None
    assert any("apt-get install g++" in advice for advice in found.advice)


def test_a_folder_that_cannot_be_written_is_told_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    monkeypatch.setenv("FIB_CACHE_PATH", str(blocked / "cache"))

    found = examine(dataset=blocked / "dataset", measures_noise=False)

    assert any("set FIB_CACHE_PATH to another folder" in advice for advice in found.advice)
    assert any("run --output DIR" in advice for advice in found.advice)


def test_another_copy_of_the_package_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "flashinfer_bench").mkdir()
    (tmp_path / "flashinfer_bench" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))

    found = examine(measures_noise=False)

    assert found.installation.other_copies == (str(tmp_path / "flashinfer_bench"),)
    assert any("there are other copies on the path" in advice for advice in found.advice)


def test_another_distribution_of_the_name_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    metadata = tmp_path / "someone_elses-9.9.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: someone-elses\nVersion: 9.9\n")
    (metadata / "top_level.txt").write_text("flashinfer_bench\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    found = examine(measures_noise=False)

    assert "someone-elses 9.9" in found.installation.distributions
    assert any("pip uninstall" in advice and "someone-elses" in advice for advice in found.advice)


@pytest.mark.parametrize("reason", [None, "Permission denied"])
def test_whether_brief_children_are_counted_is_said(
    monkeypatch: pytest.MonkeyPatch, reason: str | None
) -> None:
    monkeypatch.setattr(doctor, "why_not_counted", lambda: reason)

    found = examine(measures_noise=False)

    assert found.isolation.children_uncounted == reason
    assert any("perf_event_paranoid" in advice for advice in found.advice) == bool(reason)


def test_what_torch_was_built_for_is_read_and_not_imported() -> None:
    torch = pytest.importorskip("torch")

    assert torch_cuda() == torch.version.cuda


def test_the_same_callable_is_as_fast_as_itself() -> None:
    found = noise_in_this_process()

    assert found.ratio == pytest.approx(1.0, abs=0.3)
    assert found.latency_ms > 0


def test_what_the_kernel_does_not_say_is_unknown(tmp_path: Path) -> None:
    missing = tmp_path / "missing"

    assert system.governor(missing) is None
    assert system.huge_pages(missing) is None
    assert system.cpu_quota(missing) is None


def test_what_the_kernel_says_is_read(tmp_path: Path) -> None:
    (tmp_path / "scaling_governor").write_text("powersave\n")
    (tmp_path / "enabled").write_text("always [madvise] never\n")

    assert system.governor(tmp_path) == "powersave"
    assert system.huge_pages(tmp_path / "enabled") == "madvise"


@pytest.mark.parametrize(("text", "quota"), [("max 100000", None), ("150000 100000", 1.5)])
def test_a_limit_of_processors_is_read(tmp_path: Path, text: str, quota: float | None) -> None:
    (tmp_path / "cpu.max").write_text(text + "\n")

    assert system.cpu_quota(tmp_path / "cpu.max") == quota


def test_a_program_that_computes_is_seen_by_name_only() -> None:
    spinning = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        names = dict(system.busiest_processes(seconds=0.3))
    finally:
        spinning.kill()
        spinning.wait()

    assert any(name.startswith("python") for name in names)


def test_free_space_is_that_of_the_nearest_folder(tmp_path: Path) -> None:
    assert system.free_bytes(tmp_path / "not" / "there") == pytest.approx(
        system.free_bytes(tmp_path), rel=0.1
    )
    assert system.why_unwritable(tmp_path / "not" / "there") is None
    assert "not writable" in (system.why_unwritable(Path("/proc/x")) or "")
    assert "is not a folder" in (system.why_unwritable(Path(__file__) / "x") or "")
