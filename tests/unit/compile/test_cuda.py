"""Where the CUDA toolkit and NVIDIA's libraries are looked for; nothing is compiled."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from flashinfer_bench.compile import cuda
from flashinfer_bench.compile.builder import require_toolchain
from flashinfer_bench.compile.compiler import Recipe
from flashinfer_bench.compile.dependencies import find_libraries
from flashinfer_bench.data import BuildSpec, Solution, SourceFile
from flashinfer_bench.errors import ToolchainMissingError

if TYPE_CHECKING:
    from pathlib import Path

EMPTY = Recipe("c++17", (), (), ())


def toolkit(root: Path, *headers: str, libraries: tuple[str, ...] = ()) -> Path:
    """A folder that looks like a CUDA toolkit."""
    for name in ("bin/nvcc", "include/cuda_runtime.h", *(f"include/{name}" for name in headers)):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (root / "bin/nvcc").chmod(0o755)
    (root / "lib64").mkdir()
    for name in libraries:
        (root / "lib64" / name).touch()
    return root


def solution(*dependencies: str, language: str = "cuda") -> Solution:
    path = "k.cu" if language == "cuda" else "k.cpp"
    return Solution(
        name="s",
        definition="d",
        author="tester",
        spec=BuildSpec.model_validate(
            {
                "language": language,
                "target_hardware": ["cuda"],
                "entry_point": f"{path}::run",
                "dependencies": list(dependencies),
            }
        ),
        sources=[SourceFile(path=path, content="")],
    )


@pytest.fixture
def only_mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A toolkit of the test's own, and no CUTLASS."""
    monkeypatch.delenv("CUTLASS_PATH", raising=False)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    return tmp_path


def test_cuda_home_comes_first(only_mine: Path) -> None:
    mine = toolkit(only_mine / "cuda")

    assert cuda.find_toolkit() == cuda.Toolkit(mine)


def test_an_nvcc_on_path_counts_only_with_its_headers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "usr" / "bin" / "nvcc"
    script.parent.mkdir(parents=True)
    script.write_text("#!/bin/sh\nexec /elsewhere/nvcc\n")
    script.chmod(0o755)
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.setenv("PATH", str(script.parent))
    misled = cuda.find_toolkit()
    whole = toolkit(tmp_path / "whole")
    monkeypatch.setenv("PATH", str(whole / "bin"))

    assert misled is None or misled.root != tmp_path / "usr"
    assert cuda.find_toolkit() == cuda.Toolkit(whole)


def test_a_dependency_of_nvidias_brings_headers_libraries_and_their_folder(
    only_mine: Path,
) -> None:
    mine = toolkit(
        only_mine / "cuda", "cublas_v2.h", libraries=("libcublas.so.13", "libcublasLt.so")
    )

    recipe = find_libraries(solution("cublas")).added_to(EMPTY)

    assert recipe.include_folders == (str(mine / "include"),)
    assert recipe.library_files == (
        str(mine / "lib64/libcublas.so.13"),
        str(mine / "lib64/libcublasLt.so"),
    )
    assert recipe.link_flags == (f"-Wl,-rpath={mine / 'lib64'}",)


def test_packages_from_pypi_are_found_too(only_mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toolkit(only_mine / "cuda")
    package = only_mine / "site" / "nvidia" / "cudnn"
    for name in ("include/cudnn.h", "lib/libcudnn.so.9", "__init__.py"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).touch()
    monkeypatch.syspath_prepend(str(only_mine / "site"))
    for name in [name for name in sys.modules if name.split(".")[0] == "nvidia"]:
        monkeypatch.delitem(sys.modules, name)

    recipe = find_libraries(solution("cudnn")).added_to(EMPTY)

    assert recipe.library_files == (str(package / "lib/libcudnn.so.9"),)


def test_cutlass_path_names_a_checkout(only_mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("include/cutlass/cutlass.h", "tools/util/include/cutlass/util/host_tensor.h"):
        (only_mine / "cutlass" / name).parent.mkdir(parents=True)
        (only_mine / "cutlass" / name).touch()
    monkeypatch.setenv("CUTLASS_PATH", str(only_mine / "cutlass"))

    recipe = find_libraries(solution("CUTLASS")).added_to(EMPTY)

    assert recipe.include_folders == (
        str(only_mine / "cutlass/include"),
        str(only_mine / "cutlass/tools/util/include"),
    )


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cudnn", r"needs cudnn, and cudnn.h with its libraries is not found: pip install nvidia-"),
        ("cutlass", r"needs cutlass, and cutlass/cutlass.h is not found: git clone .*CUTLASS_PATH"),
        ("no-such-package", r"needs no-such-package, which is not installed: pip install"),
    ],
)
@pytest.mark.parametrize("language", ["cpp", "cuda"])
def test_a_dependency_that_is_not_here_is_named_with_the_way_to_get_it(
    name: str, words: str, language: str, only_mine: Path
) -> None:
    toolkit(only_mine / "cuda")

    with pytest.raises(ToolchainMissingError, match=words):
        find_libraries(solution(name, language=language))


def test_what_a_build_depends_on_names_its_libraries(only_mine: Path) -> None:
    mine = toolkit(only_mine / "cuda", "cublas_v2.h", libraries=("libcublas.so", "libcublasLt.so"))
    before = find_libraries(solution("cublas")).facts
    (mine / "lib64/libcublas.so").write_text("an upgraded library")

    after = find_libraries(solution("cublas")).facts

    assert before != after
    assert find_libraries(solution()).facts == {}


def cpp_only(*hardware: str) -> Solution:
    made = solution()
    spec = {
        **made.spec.model_dump(),
        "target_hardware": list(hardware),
        "entry_point": "k.cpp::run",
    }
    source = SourceFile(path="k.cpp", content="")
    return made.model_copy(update={"spec": BuildSpec.model_validate(spec), "sources": [source]})


def test_cuda_that_is_only_cpp_for_the_cpu_needs_no_toolkit() -> None:
    assert not cuda.needs_nvcc(cpp_only("cpu"))
    assert cuda.needs_nvcc(cpp_only("cpu", "cuda"))
    assert cuda.needs_nvcc(solution())


def test_such_a_solution_can_be_built_where_no_toolkit_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "find_toolkit", lambda: None)

    require_toolchain(cpp_only("cpu"))
    with pytest.raises(ToolchainMissingError, match="no CUDA toolkit"):
        require_toolchain(cpp_only("cuda"))
