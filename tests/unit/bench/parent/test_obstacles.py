"""Whether the machine is at fault when a build says so: what the parent sees for itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from flashinfer_bench.bench.parent.obstacles import is_for_another_device, missing_toolchain
from flashinfer_bench.data import BuildSpec, Solution, SourceFile

if TYPE_CHECKING:
    from pathlib import Path

FILES = {"cpp": "k.cpp", "cuda": "k.cu", "python": "k.py", "triton": "k.py", "tilelang": "k.py"}


def written(
    language: str, *dependencies: str, source: str = "", binding: str | None = None
) -> Solution:
    path = FILES[language]
    spec = {
        "language": language,
        "binding": binding,
        "target_hardware": ["cuda"],
        "entry_point": f"{path}::run",
        "dependencies": list(dependencies),
    }
    return Solution(
        name="s",
        definition="d",
        author="tester",
        spec=BuildSpec.model_validate(spec),
        sources=[SourceFile(path=path, content=source)],
    )


@pytest.fixture
def without_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)


@pytest.fixture
def toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A CUDA toolkit without libraries, and all else that a build needs."""
    for name in ("bin/nvcc", "include/cuda_runtime.h"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    for builder in ("tvm_ffi.TvmFfiBuilder", "torch_extension.TorchExtensionBuilder"):
        place = f"flashinfer_bench.compile.builders.{builder}.missing_tool"
        monkeypatch.setattr(place, lambda self: None)
    return tmp_path


@pytest.mark.parametrize("language", ["cpp", "cuda", "triton", "tilelang"])
def test_a_language_whose_package_is_not_here_is_the_machines_lack(
    language: str, without_packages: None
) -> None:
    lack = missing_toolchain(written(language), arch=None)

    assert lack is not None
    assert "is not installed" in lack


@pytest.mark.parametrize("arch", [None, "sm_90"])
def test_python_needs_nothing_but_what_it_names(arch: str | None) -> None:
    assert missing_toolchain(written("python"), arch=arch) is None
    assert missing_toolchain(written("python", "pytest>=1"), arch=arch) is None
    assert "pip install 'no-such-package'" in str(
        missing_toolchain(written("python", "no-such-package"), arch=arch)
    )


def test_without_a_compiler_what_must_be_compiled_cannot_be_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert "install" in str(missing_toolchain(written("cpp"), arch=None))


@pytest.mark.parametrize("language", ["cpp", "cuda"])
def test_a_library_that_the_sources_include_is_looked_for(language: str, toolkit: Path) -> None:
    source = "#include <cuda_runtime.h>\n  # include <cublasLt.h>\n"
    using = written(language, source=source)
    if language == "cpp":
        files = [*using.sources, SourceFile(path="more.cu", content="")]
        using = using.model_copy(update={"sources": files})

    assert "includes cublas_v2.h" in str(missing_toolchain(using, arch=None))

    (toolkit / "include/cublas_v2.h").touch()

    assert missing_toolchain(using, arch=None) is None


def test_atens_headers_bring_libraries_of_their_own(toolkit: Path) -> None:
    extension = written("cuda", binding="torch")

    assert missing_toolchain(written("cuda"), arch=None) is None
    assert "includes cublas_v2.h" in str(missing_toolchain(extension, arch=None))


def test_a_triton_that_interprets_compiles_for_no_architecture(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "flashinfer_bench.compile.builders.triton.TritonBuilder.missing_tool", lambda self: None
    )
    monkeypatch.setenv("TRITON_INTERPRET", "1")

    assert missing_toolchain(written("triton"), arch=None) is None
    assert "cannot compile for sm_90" in str(missing_toolchain(written("triton"), arch="sm_90"))


@pytest.mark.parametrize(
    ("language", "arch", "own_arch", "expected"),
    [
        ("cuda", None, None, True),
        ("cuda", "sm_90", None, True),
        ("cuda", None, "sm_90", False),
        ("cuda", "sm_90a", "sm_90", False),
        ("cuda", "sm_80", "sm_90", True),
        ("triton", None, None, False),
        ("triton", "sm_90", None, True),
        ("triton", "sm_80", "sm_90", True),
        ("triton", "sm_90", "sm_90", False),
        ("tilelang", "sm_90", None, False),
        ("cpp", None, None, False),
        ("cpp", "sm_90", None, False),
        ("python", None, None, False),
        ("python", "sm_90", "sm_80", False),
    ],
)
def test_what_is_compiled_for_another_device_follows_from_language_and_settings(
    language: str, arch: str | None, own_arch: str | None, expected: bool
) -> None:
    found = is_for_another_device(written(language), arch=arch, own_arch=own_arch)

    assert found is expected


def test_a_python_solution_with_a_cuda_file_runs_here_all_the_same() -> None:
    mixed = written("python")
    files = [*mixed.sources, SourceFile(path="kernel.cu", content="")]
    mixed = mixed.model_copy(update={"sources": files})

    assert not is_for_another_device(mixed, arch=None, own_arch=None)
