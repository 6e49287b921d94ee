"""Which options of compilers a solution may name, and what is said of others."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from flashinfer_bench.data import BuildSpec, Solution, SourceFile
from flashinfer_bench.data.build_options import fault, without_architecture


def compiled(language: str = "cuda", **options: Any) -> Solution:
    spec = {"language": language, "target_hardware": ["cuda"], "entry_point": "main.cu::run"}
    return Solution(
        name="s",
        definition="d",
        author="a",
        spec=BuildSpec.model_validate(spec | options),
        sources=[SourceFile(path="main.cu", content="")],
    )


# What published CUDA extensions pass to torch's loader: flash-attention, apex, xformers, SOL-ExecBench's defaults.
PUBLISHED = [
    *("-O3", "-std=c++17", "-U__CUDA_NO_HALF_OPERATORS__", "-U__CUDA_NO_BFLOAT16_CONVERSIONS__"),
    *("--expt-relaxed-constexpr", "--expt-extended-lambda", "--use_fast_math", "-lineinfo"),
    *("--ptxas-options=-v", "--ptxas-options=-O2", "-DNDEBUG", "--threads", "4", "-Xcompiler=-O3,-fPIC"),
    *("-gencode", "arch=compute_90a,code=sm_90a", "-Xptxas=-v,-O3", "--maxrregcount=128"),
    *("-gencode=arch=compute_100a,code=sm_100a", "--extended-lambda", "-Xcudafe", "--diag_suppress=20012"),
]  # fmt: skip


def test_options_of_published_extensions_are_allowed() -> None:
    assert fault("cuda_cflags", PUBLISHED) is None
    assert (
        fault("cflags", ["-O3", "-std=c++20", "-march=native", "-fno-math-errno", "-mavx512f"])
        is None
    )
    assert fault("cflags", ["-Wall", "-Wno-unused-variable", "-fopenmp", "-funroll-loops"]) is None
    assert fault("ld_flags", ["-lcuda", "-lcublasLt", "-Wl,--as-needed", "-Wl,-z,now"]) is None


@pytest.mark.parametrize(
    ("key", "option", "says"),
    [
        ("cflags", "-I/usr/include", "put headers among `sources`"),
        ("cflags", "-include/etc/passwd", "put headers among `sources`"),
        ("cflags", "-fplugin=./mine.so", "code within the compiler"),
        ("cflags", "-mllvm", "code within the compiler"),
        ("cflags", "-specs=mine", "runs other programs"),
        ("cflags", "-o/tmp/x", "reads or writes files"),
        ("cflags", "@options", "reads or writes files"),
        ("cflags", "-Wl,-rpath,/tmp", "`dependencies`"),
        ("cflags", "-DX=a,-I/usr/include", "not on the list"),
        ("cflags", "-Ofaster", "-O3, -std=c++20"),
        ("cuda_cflags", "-default-stream=per-thread", "a stream that nobody times"),
        ("cuda_cflags", "-ccbin=mine", "runs other programs"),
        ("cuda_cflags", "-Xcompiler=-O3,-fplugin=a.so", "code within the compiler"),
        ("cuda_cflags", "--options-file=x", "reads or writes files"),
        ("cuda_cflags", "-Xptxas=--options-file=x", "not on the list"),
        ("ld_flags", "-L/tmp", "not the solution's"),
        ("ld_flags", "-lmine", "that library is none"),
        ("ld_flags", "other.o", "not the solution's"),
        ("ld_flags", "-Wl,--wrap=malloc", "not on the list"),
    ],
)
def test_other_options_are_refused_with_the_reason(key: str, option: str, says: str) -> None:
    with pytest.raises(ValidationError) as caught:
        compiled(compile_options={key: [option]})

    assert says in str(caught.value)


def test_options_are_part_of_the_hash() -> None:
    plain, fast = compiled(), compiled(compile_options={"cuda_cflags": ["--use_fast_math"]})
    slow = compiled(compile_options={"cuda_cflags": ["-O1"]})

    assert len({plain.hash(), fast.hash(), slow.hash()}) == 3


def test_python_has_no_compiler_to_give_options_to() -> None:
    with pytest.raises(ValidationError, match="nothing compiles triton sources with options"):
        compiled("triton", compile_options={})


def test_architectures_are_left_out_whether_written_as_one_word_or_two() -> None:
    options = ["-O2", "-gencode", "arch=compute_90a,code=sm_90a", "-arch=sm_80", "-DARCH=1"]

    assert without_architecture(options) == ["-O2", "-DARCH=1"]
