"""Which options of compilers a solution may name: a list of what is allowed; all others are refused, with the reason.

An option may make a kernel faster or its diagnostics better. It may not read or write files beside the solution's own,
run programs, link what `dependencies` does not name, or change where a kernel runs, which is what is timed.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

WITH_OURS = "flags_of_ours"
"""The key of a validation's context that takes every option: `profile` and `sanitize` add some to a solution's own."""
_SHARED = (
    r"-D[A-Za-z_]\w*(=[^,\n]*)?|-U[A-Za-z_]\w*",
    r"-g[0-3]?|-ggdb[0-3]?|-w",
    r"--?std=(c|gnu)(\+\+)?\w\w",
)
_OPTIMISATION = (
    r"finite-math-only|math-errno|fast-math|unsafe-math-optimizations|associative-math|reciprocal-math|"
    r"signed-zeros|trapping-math|rounding-math|fp-contract=(fast|on|off)|unroll-loops|unroll-all-loops|"
    r"tree-vectorize|tree-slp-vectorize|vectorize|slp-vectorize|vect-cost-model=\w+|simd-cost-model=\w+|"
    r"inline-functions|inline-limit=\d+|omit-frame-pointer|strict-aliasing|strict-overflow|wrapv|"
    r"prefetch-loop-arrays|ipa-pta|align-(functions|loops|jumps|labels)(=\d+)?|peel-loops|"
    r"loop-nest-optimize|tree-loop-distribution|modulo-sched|lto(=(auto|thin|full|\d+))?|plt|"
    r"semantic-interposition|stack-protector"
)
_LANGUAGE = (
    r"openmp|openmp-simd|PIC|pic|visibility=\w+|visibility-inlines-hidden|exceptions|rtti|permissive|concepts|"
    r"coroutines|char8_t|signed-char|unsigned-char|constexpr-(depth|ops-limit|loop-limit|steps)=\d+|"
    r"template-depth=\d+|max-errors=\d+|diagnostics-color(=\w+)?"
)
_CFLAGS = (
    *_SHARED,
    r"-O([0-3sgz]|fast)?",
    rf"-f(no-)?({_OPTIMISATION}|{_LANGUAGE})",
    r"-m(?!llvm)(no-)?[a-z0-9][\w.-]*(=[\w.+-]+)?",
    r"-W(no-)?[a-z][\w+-]*(=[\w+-]+)?",
    r"-pedantic|-pthread|-pipe",
)
_TRUTH = r"(true|false)"
_OF_PTXAS = (
    r"-v|--verbose|-O[0-4]|--opt-level[= ]?[0-4]|--?(warn-spills|warn-on-spills|warn-lmem-usage|"
    rf"warn-on-local-memory-usage|warn-double-usage|warn-on-double-precision-use|suppress-\w[\w-]*)|"
    r"-?-(dlcm|dscm|def-load-cache|def-store-cache|register-usage-level|maxrregcount)=\w+|"
    rf"-?-(fmad|allow-expensive-optimizations|disable-optimizer-constants)(={_TRUTH})?"
)
_NVCC_ARCHITECTURE = (
    r"-gencode=arch=\w+,code=(\w+|\[[\w,]+\])|--generate-code=arch=\w+,code=(\w+|\[[\w,]+\])",
    r"(-arch|--gpu-architecture|-code|--gpu-code)=[\w,]+",
)
_CUDA_CFLAGS = (
    *_SHARED,
    *_NVCC_ARCHITECTURE,
    r"-O[0-3]|--optimize=[0-3]",
    r"--?use_fast_math",
    rf"--?(ftz|prec-div|prec-sqrt|fmad)={_TRUTH}",
    r"--?(maxrregcount|split-compile|threads)=\d+|-t=\d+",
    r"--?extra-device-vectorization|--?expt-relaxed-constexpr|--?expt-extended-lambda|--?extended-lambda",
    rf"-dlto|--?relocatable-device-code={_TRUTH}|-rdc={_TRUTH}",
    r"-G|--device-debug|-lineinfo|--generate-line-info|-src-in-ptx|--source-in-ptx|-res-usage|--resource-usage",
    r"--disable-warnings|-Wno-deprecated-gpu-targets|--?diag[-_](suppress|warn|error)=[\w,]+|--?restrict",
    rf"(-Xptxas|--ptxas-options)=({_OF_PTXAS})(,({_OF_PTXAS}))*",
    r"-Xcudafe=--(diag_suppress|display_error_number)(=\w+)?",
)
_LIBRARIES = (
    r"cuda|cudart|cublas|cublasLt|cudnn\w*|cufft|curand|cusolver|cusparse|nvrtc|nvJitLink|nvToolsExt|m|pthread|dl|rt|"
    r"gomp|stdc\+\+|gcc_s|c10|c10_cuda|torch|torch_cpu|torch_cuda|torch_python"
)
_LD_FLAGS = (
    rf"-l({_LIBRARIES})",
    r"-Wl,(-O[0-3]|--as-needed|--no-as-needed|--gc-sections|-z,(now|relro|defs|noexecstack)|--exclude-libs,ALL)",
    r"-s|-pthread|-fopenmp|-flto(=(auto|thin|full|\d+))?",
)
ALLOWED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"cflags": _CFLAGS, "cuda_cflags": _CUDA_CFLAGS, "ld_flags": _LD_FLAGS}
)
"""Regular expressions that an option matches as a whole, by the key of `compile_options`."""
_EXAMPLES = {
    "cflags": "-O3, -std=c++20, -march=native, -ffast-math, -funroll-loops, -fopenmp, -DNAME=VALUE, -Wall",
    "cuda_cflags": "-O3, -std=c++17, --use_fast_math, -maxrregcount=128, --expt-relaxed-constexpr, "
    "-Xptxas=-v, -lineinfo, -DNAME=VALUE",
    "ld_flags": "-lcuda, -lcublas, -lcudnn, -Wl,--as-needed",
}
_WITH_VALUE = frozenset(
    {
        "-gencode",
        "--generate-code",
        "-arch",
        "--gpu-architecture",
        "-code",
        "--gpu-code",
        "-std",
        "--std",
    }
    | {"-maxrregcount", "--maxrregcount", "-Xptxas", "--ptxas-options", "-Xcudafe", "-Xcompiler"}
    | {
        "--compiler-options",
        "--threads",
        "-t",
        "-rdc",
        "--relocatable-device-code",
        "-diag-suppress",
    }
)
"""Options of nvcc whose value may be a word of its own."""
_HOST_COMPILER = re.compile(r"(?:-Xcompiler|--compiler-options)=(.*)")
_ARCHITECTURE = re.compile("|".join(_NVCC_ARCHITECTURE))
_REASONS = (
    (
        r"-f(pass-)?plugin|-Xclang|-mllvm|-wrapper|-ccbin|--compiler-bindir|--?specs|-fuse-ld",
        "it runs other programs, or code within the compiler",
    ),
    (
        r"-I|-isystem|-iquote|-include|--include-path|--pre-include|-idirafter|-B",
        "it reads headers or tools from a machine's folders; put headers among `sources`, libraries in `dependencies`",
    ),
    (
        r"-L|--library-path|-rpath|.*-rpath|.*\.(so|a|o|cu|cpp|bc)\b.*|/",
        "it links or compiles files that are not the solution's; name libraries in `dependencies`",
    ),
    (r"-l", "that library is none of those that can be linked; name packages in `dependencies`"),
    (
        r"-o|-save-temps|--keep|-M|-fdump|-fprofile|-dumpbase|@|--options-file|-optf",
        "it reads or writes files beside the solution's",
    ),
    (
        r"--?default-stream",
        "it moves kernels to a stream that nobody times; launch on the current stream in the source",
    ),
    (
        r"--?cudart|-shared|-static|-c$|-E$|-S$|-ptx|-cubin|-x",
        "it changes what is built: here that is a shared library",
    ),
)


def joined(key: str, options: Sequence[str]) -> list[str]:
    """Write options of nvcc that come with their value as the next word as one word: `-gencode=arch=…`."""
    if key != "cuda_cflags":
        return list(options)
    words: list[str] = []
    waiting = ""
    for option in options:
        if waiting:
            words.append(f"{waiting}={option}")
            waiting = ""
        elif option in _WITH_VALUE:
            waiting = option
        else:
            words.append(option)
    return [*words, waiting] if waiting else words


def fault(key: str, options: Sequence[str]) -> str | None:
    """Say which option of `cflags`, `cuda_cflags` or `ld_flags` is refused, and why; None where all are allowed."""
    for option in joined(key, options):
        host = _HOST_COMPILER.fullmatch(option) if key == "cuda_cflags" else None
        if host is not None:
            found = fault("cflags", host.group(1).split(","))
            if found is not None:
                return f"{option!r}: {found}"
        elif not any(re.fullmatch(pattern, option) for pattern in ALLOWED[key]):
            return f"{option!r} is not allowed: {_reason(key, option)}"
    return None


def without_architecture(options: Sequence[str]) -> list[str]:
    """Leave out of nvcc's options those that name an architecture: the device's own is compiled for."""
    words = joined("cuda_cflags", options)
    return [option for option in words if not _ARCHITECTURE.fullmatch(option)]


def _reason(key: str, option: str) -> str:
    for pattern, reason in _REASONS:
        if re.match(pattern, option):
            return reason
    return f"it is not on the list for {key}; there are {_EXAMPLES[key]} (docs/problems.md)"
