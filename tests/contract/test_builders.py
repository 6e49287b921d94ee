"""What every builder promises, run over all of them; plus what only some of them can promise.

The torch builder is asked for a plain CPython extension, which compiles in a blink; one test, the
slow one, includes `torch/extension.h`. Where there is no GPU, Triton is interpreted, TileLang goes
through C, and CUDA is compiled and not run: tests that call it say so and are skipped.
"""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from flashinfer_bench.compile import BuildError, CallStyle, Runnable, build
from flashinfer_bench.compile.builder import BUILDERS
from flashinfer_bench.compile.targets import BuildTarget
from flashinfer_bench.data import BuildSpec, Definition, Solution, SourceFile
from flashinfer_bench.errors import DeviceError, ToolchainMissingError
from tests.marks import mostly_full

if TYPE_CHECKING:
    from collections.abc import Callable

torch = pytest.importorskip("torch", reason="solutions compute on torch tensors")
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before another test of this process imports Triton

DEFINITION = Definition.model_validate(
    {
        "name": "scale",
        "op_type": "elementwise",
        "axes": {"n": {"type": "var"}},
        "inputs": {
            "x": {"shape": ["n"], "dtype": "float32"},
            "factor": {"shape": None, "dtype": "float32"},
        },
        "outputs": {"y": {"shape": ["n"], "dtype": "float32"}},
        "reference": "def run(x, factor):\n    return x * factor\n",
    }
)
SIGNATURE = DEFINITION.signature()

PYTHON_INTO = "def run(x, factor, y):\n    y.copy_(x * factor)\n"
PYTHON_RETURNS = "def run(x, factor):\n    return x * factor\n"

TVM_HEAD = """\
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>
using tvm::ffi::Tensor;
using tvm::ffi::TensorView;
template <typename Out>
void fill(TensorView x, double factor, Out& y) {
  const float* from = static_cast<const float*>(x.data_ptr());
  float* into = static_cast<float*>(y.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) into[i] = from[i] * static_cast<float>(factor);
}
"""
EXPORT_INTO = """
void scaled(TensorView x, double factor, TensorView y) { fill(x, factor, y); }
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, scaled);
"""
EXPORT_RETURNS = """
Tensor scaled(TensorView x, double factor) {
  Tensor y = Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, x.shape(), x.dtype(), x.device());
  fill(x, factor, y);
  return y;
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, scaled);
"""
TVM_INTO = TVM_HEAD + EXPORT_INTO
TVM_RETURNS = TVM_HEAD + EXPORT_RETURNS

TRITON_KERNEL = """\
import torch
import triton
import triton.language as tl

@triton.jit
def scale(x, y, factor, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * factor, mask=at < n)

def launch(x, factor, y):
    scale[(triton.cdiv(x.numel(), 256),)](x, y, factor, x.numel(), BLOCK=256)
"""
TILELANG_KERNEL = """\
import tilelang
import tilelang.language as T
import torch

@tilelang.jit
def scale(n, block=128):
    @T.prim_func
    def kernel(x: T.Tensor((n,), "float32"), factor: T.float32, y: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, block), threads=block) as tile:
            for lane in T.Parallel(block):
                if tile * block + lane < n:
                    y[tile * block + lane] = x[tile * block + lane] * factor
    return kernel

def launch(x, factor, y):
    scale(x.numel())(x, factor, y)
"""
LAUNCH_INTO = "\ndef run(x, factor, y):\n    launch(x, factor, y)\n"
LAUNCH_RETURNS = """
def run(x, factor):
    y = torch.empty_like(x)
    launch(x, factor, y)
    return y
"""

CUDA_KERNEL = """\
__global__ void scale(const float* x, float factor, float* y, long n) {
  long i = blockIdx.x * static_cast<long>(blockDim.x) + threadIdx.x;
  if (i < n) y[i] = x[i] * factor;
}
"""
CUDA_FILL = f"""{CUDA_KERNEL}
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>
using tvm::ffi::Tensor;
using tvm::ffi::TensorView;
template <typename Out>
void fill(TensorView x, double factor, Out& y) {{
  DLDevice device = x.device();
  void* stream = TVMFFIEnvGetStream(device.device_type, device.device_id);
  scale<<<(x.numel() + 255) / 256, 256, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const float*>(x.data_ptr()), static_cast<float>(factor),
      static_cast<float*>(y.data_ptr()), x.numel());
}}
"""

CPYTHON_EXTENSION = """\
#define PY_SSIZE_T_CLEAN
#include <Python.h>
static PyObject* run(PyObject*, PyObject* args) {
  PyObject *x, *factor, *y = nullptr;
  if (!PyArg_ParseTuple(args, "OO|O", &x, &factor, &y)) return nullptr;
  PyObject* product = PyNumber_Multiply(x, factor);
  return y == nullptr || product == nullptr ? product
                                            : PyObject_CallMethod(y, "copy_", "N", product);
}
static PyMethodDef methods[] = {{"run", run, METH_VARARGS, nullptr},
                                {nullptr, nullptr, 0, nullptr}};
#define STRING(name) #name
#define NAMED(name) STRING(name)
#define INIT(name) PyInit_##name
#define INIT_OF(name) INIT(name)
static PyModuleDef module = {PyModuleDef_HEAD_INIT, NAMED(TORCH_EXTENSION_NAME), nullptr, -1,
                             methods};
PyMODINIT_FUNC INIT_OF(TORCH_EXTENSION_NAME)() { return PyModule_Create(&module); }
"""


@dataclass(frozen=True)
class Case:
    """`y = x * factor` in the words of one builder, and a source it must refuse."""

    language: str
    binding: str | None
    path: str
    into: str
    returns: str
    broken: str
    complaint: str

    def solution(self, source: str, *, name: str = "scaler", **spec: object) -> Solution:
        return Solution(
            name=name,
            definition="scale",
            author="tester",
            spec=BuildSpec.model_validate(
                {
                    "language": self.language,
                    "binding": self.binding,
                    "target_hardware": ["cpu"],
                    "entry_point": f"{self.path}::run",
                    **spec,
                }
            ),
            sources=[
                SourceFile(path=self.path, content=source),
                SourceFile(path="notes/readme.txt", content="not compiled"),
            ],
        )

    @property
    def label(self) -> str:
        return f"{self.language}-{self.binding}" if self.binding else self.language

    @property
    def writing_into(self) -> Solution:
        return self.solution(self.into)

    @property
    def returning(self) -> Solution:
        return self.solution(self.returns, destination_passing_style=False)


CASES = [
    Case(
        language="python",
        binding=None,
        path="main.py",
        into=PYTHON_INTO,
        returns=PYTHON_RETURNS,
        broken="def run(x, factor, y:\n",
        complaint="SyntaxError",
    ),
    Case(
        language="cpp",
        binding="tvm-ffi",
        path="main.cpp",
        into=TVM_INTO,
        returns=TVM_RETURNS,
        broken="int run() { return undeclared_name; }\n",
        complaint="main.cpp:1:20: error: ",
    ),
    Case(
        language="cpp",
        binding="torch",
        path="main.cpp",
        into=CPYTHON_EXTENSION,
        returns=CPYTHON_EXTENSION,
        broken="int run() { return undeclared_name; }\n",
        complaint="main.cpp:1:20: error: ",
    ),
    Case(
        language="triton",
        binding=None,
        path="main.py",
        into=TRITON_KERNEL + LAUNCH_INTO,
        returns=TRITON_KERNEL + LAUNCH_RETURNS,
        broken="import triton\n@triton.jit\ndef run(x, factor, y:\n",
        complaint="SyntaxError",
    ),
    Case(
        language="tilelang",
        binding=None,
        path="main.py",
        into=TILELANG_KERNEL + LAUNCH_INTO,
        returns=TILELANG_KERNEL + LAUNCH_RETURNS,
        broken="import tilelang.no_such_module\n",
        complaint="ModuleNotFoundError",
    ),
    Case(
        language="cuda",
        binding="tvm-ffi",
        path="main.cu",
        into=CUDA_FILL + EXPORT_INTO,
        returns=CUDA_FILL + EXPORT_RETURNS,
        broken="__global__ void k(float* y) { y[0] = undeclared_name; }\n",
        complaint='main.cu(1): error: identifier "undeclared_name" is undefined',
    ),
    Case(
        language="cuda",
        binding="torch",
        path="main.cu",
        into=CUDA_KERNEL + CPYTHON_EXTENSION,
        returns=CUDA_KERNEL + CPYTHON_EXTENSION,
        broken="__global__ void k(float* y) { y[0] = undeclared_name; }\n",
        complaint='main.cu(1): error: identifier "undeclared_name" is undefined',
    ),
]
PYTHON, TVM_FFI, TORCH, TRITON, TILELANG, CUDA, CUDA_TORCH = CASES
GPU_LANGUAGES = {"triton", "tilelang", "cuda"}


def require_tools(case: Case) -> None:
    missing = BUILDERS[case.language, case.binding].missing_tool()
    if missing is not None:
        pytest.skip(missing)


@pytest.fixture(params=CASES, ids=lambda case: case.label)
def case(request: pytest.FixtureRequest) -> Case:
    require_tools(request.param)
    return request.param


def all_cases(*, quick: tuple[Case, ...]) -> pytest.MarkDecorator:
    """Every builder, most of them in `make test-full` only: for tests that compile a lot."""
    cases = mostly_full(CASES, *quick)
    return pytest.mark.parametrize("case", cases, indirect=True, ids=lambda case: case.label)


@pytest.fixture(scope="module")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shared-cache")


def tensor(case: Case, *values: float) -> Any:
    """A tensor where the case's kernels run: GPU languages on a GPU if there is one."""
    import torch

    on_gpu = case.language in GPU_LANGUAGES and torch.cuda.is_available()
    return torch.tensor(values, device="cuda" if on_gpu else "cpu")


def require_device(runnable: Runnable) -> Runnable:
    """Skip what would be called, with the builder's own words, where it cannot run."""
    if runnable.metadata.absence is not None:
        pytest.skip(runnable.metadata.absence)
    return runnable


def left_in(cache: Path) -> list[Path]:
    """What a cache holds besides empty folders and locks."""
    return [path for path in cache.rglob("*") if path.is_file() and path.suffix != ".lock"]


def test_a_built_solution_computes_what_its_source_says(case: Case, shared_cache: Path) -> None:
    runnable = require_device(build(case.writing_into, SIGNATURE, cache_root=shared_cache))

    got = runnable.call_value_returning(tensor(case, 1.0, 2.0), 3.0)

    assert got.tolist() == [3.0, 6.0]


def test_a_builder_takes_its_own_language_and_refuses_the_others(case: Case) -> None:
    builder = BUILDERS[case.language, case.binding]

    taken = [other for other in CASES if builder.can_build(other.writing_into)]

    assert taken == [case]


def test_building_twice_gives_the_same_from_one_folder(case: Case, shared_cache: Path) -> None:
    first = build(case.writing_into, SIGNATURE, cache_root=shared_cache)
    inode = Path(first.metadata.misc["folder"]).stat().st_ino
    second = build(case.writing_into, SIGNATURE, cache_root=shared_cache)

    assert Path(second.metadata.misc["folder"]).stat().st_ino == inode
    assert second.metadata == first.metadata


def test_a_cleaned_up_runnable_leaves_the_other_one_working(case: Case, shared_cache: Path) -> None:
    first = build(case.writing_into, SIGNATURE, cache_root=shared_cache)
    second = require_device(build(case.writing_into, SIGNATURE, cache_root=shared_cache))
    first.cleanup()
    first.cleanup()

    assert second.call_value_returning(tensor(case, 1.0), 4.0).tolist() == [4.0]
    assert Path(second.metadata.misc["folder"]).is_dir()


@all_cases(quick=(PYTHON, TVM_FFI, TRITON, TILELANG))
def test_the_calling_style_survives(case: Case, shared_cache: Path) -> None:
    into = build(case.writing_into, SIGNATURE, cache_root=shared_cache)
    returns = build(case.returning, SIGNATURE, cache_root=shared_cache)

    assert [into.metadata.call_style, returns.metadata.call_style] == list(CallStyle)


def test_a_solution_is_called_in_its_own_style(case: Case, shared_cache: Path) -> None:
    into = require_device(build(case.writing_into, SIGNATURE, cache_root=shared_cache))
    returns = build(case.returning, SIGNATURE, cache_root=shared_cache)
    x, y = tensor(case, 2.0), tensor(case, 0.0)
    into.callable(x, 5.0, y)

    assert y.tolist() == returns.callable(x, 5.0).tolist() == [10.0]


def test_a_build_for_another_device_says_so_and_refuses_to_be_called(
    case: Case, shared_cache: Path
) -> None:
    if case.language != "cuda" or torch.cuda.is_available():
        pytest.skip("what this builds runs here")

    runnable = build(case.writing_into, SIGNATURE, cache_root=shared_cache)

    assert runnable.metadata.absence == "built for sm_90, no CUDA device"
    with pytest.raises(DeviceError, match=r"scaler cannot run here: built for sm_90, no CUDA"):
        runnable(tensor(case, 1.0), 2.0, tensor(case, 0.0))


@all_cases(quick=(PYTHON, TORCH))
def test_solutions_that_differ_in_what_they_do_share_no_build(
    case: Case, shared_cache: Path
) -> None:
    base = case.writing_into
    more_sources = [*base.sources, SourceFile(path="more.h", content="// more")]
    variants = [
        base,
        case.returning,
        case.solution(case.into + "\n"),
        case.solution(case.into, dependencies=["torch"]),
        base.model_copy(update={"sources": more_sources}),
    ]

    folders = [
        build(variant, SIGNATURE, cache_root=shared_cache).metadata.misc["folder"]
        for variant in variants
    ]

    assert len(set(folders)) == len(variants)


@all_cases(quick=(PYTHON, TORCH))
def test_the_same_code_under_two_names_keeps_both_names(case: Case, shared_cache: Path) -> None:
    solutions = [case.writing_into, case.solution(case.into, name="other name")]

    built = [build(solution, SIGNATURE, cache_root=shared_cache) for solution in solutions]

    assert [runnable.metadata.solution_name for runnable in built] == ["scaler", "other name"]


def test_a_failed_build_carries_the_compilers_words_and_leaves_nothing_behind(
    case: Case, tmp_path: Path
) -> None:
    with pytest.raises(BuildError) as failure:
        build(case.solution(case.broken), SIGNATURE, cache_root=tmp_path)

    assert case.complaint in failure.value.log
    assert "scaler" in str(failure.value)
    assert left_in(tmp_path) == []


@all_cases(quick=(PYTHON, TVM_FFI, TRITON))
def test_a_missing_entry_function_is_named_beside_those_there_are(
    case: Case, shared_cache: Path
) -> None:
    solution = case.solution(case.into, entry_point=f"{case.path}::go")

    with pytest.raises(BuildError, match=r"'go'.*\brun\b"):
        build(solution, SIGNATURE, cache_root=shared_cache)


def test_an_entry_file_of_another_language_is_refused(case: Case, tmp_path: Path) -> None:
    solution = case.solution(case.into, entry_point="notes/readme.txt::run")

    with pytest.raises(BuildError, match=r"must end in .*not 'readme.txt'"):
        build(solution, SIGNATURE, cache_root=tmp_path)


BUILD_IN_A_PROCESS = """
import os, sys
from pathlib import Path
from flashinfer_bench.compile import build
from flashinfer_bench.data import Signature, Solution

signature = Signature.model_validate_json(sys.argv[1])
solution = Solution.model_validate_json(sys.argv[2])
import torch
print("ready", flush=True)
sys.stdin.readline()
runnable = build(solution, signature, cache_root=Path(sys.argv[3]))
print(os.stat(runnable.metadata.misc["folder"]).st_ino)
"""


def start_building(
    solution: Solution, cache: Path, environment: dict[str, str]
) -> subprocess.Popen[str]:
    """Start a process that builds when a line is written to it."""
    arguments = [SIGNATURE.to_json(), solution.to_json(), str(cache)]
    return subprocess.Popen(
        [sys.executable, "-c", BUILD_IN_A_PROCESS, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | environment,
        start_new_session=True,
        text=True,
    )


def counting_compiler(folder: Path, *, before: str = "") -> tuple[Path, Path]:
    """Make a compiler that notes its process id in a file each time it makes a library."""
    script, notes = folder / "counting-c++", folder / "compilations"
    notes.touch()
    note = f'case "$*" in *.so*) echo $$ >> {notes};; esac'
    script.write_text(f'#!/bin/sh\n{note}\n{before}\nexec c++ "$@"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return script, notes


@all_cases(quick=(TVM_FFI,))
def test_two_processes_that_build_at_once_compile_once(case: Case, tmp_path: Path) -> None:
    compiler, notes = counting_compiler(tmp_path)
    builders = [
        start_building(case.writing_into, tmp_path / "cache", {"CXX": str(compiler)})
        for _ in range(2)
    ]
    ready = [builder.stdout.readline() for builder in builders if builder.stdout]

    answers = [builder.communicate("go\n", timeout=120)[0] for builder in released(builders)]

    assert ready == ["ready\n"] * 2
    assert len(set(answers)) == 1
    assert answers[0].strip().isdecimal()
    assert len(notes.read_text().split()) == (case.language in {"cpp", "cuda"})


def released(builders: list[subprocess.Popen[str]]) -> list[subprocess.Popen[str]]:
    """Let both start before either is waited for."""
    for builder in builders:
        assert builder.stdin
        builder.stdin.write("go\n")
        builder.stdin.flush()
    return builders


def test_a_killed_build_leaves_no_compiler_and_no_build_and_the_next_one_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_tools(TVM_FFI)
    dawdle = f"test -e {tmp_path}/quick || sleep 60"
    compiler, notes = counting_compiler(tmp_path, before=dawdle)
    monkeypatch.setenv("CXX", str(compiler))
    cache = tmp_path / "cache"
    builder = start_building(TVM_FFI.writing_into, cache, {})
    released([builder])
    wait_until(lambda: notes.read_text().endswith("\n"))
    os.killpg(builder.pid, signal.SIGKILL)
    builder.communicate()
    wait_until(lambda: has_ended(int(notes.read_text())))
    finished_after_the_kill = [path for path in cache.rglob("*.so") if path.is_file()]
    (tmp_path / "quick").touch()

    runnable = build(TVM_FFI.writing_into, SIGNATURE, cache_root=cache)

    assert finished_after_the_kill == []
    assert [path.name for path in cache.glob("solutions/*/tvm_ffi/*")] == [
        Path(runnable.metadata.misc["folder"]).name
    ]


def has_ended(pid: int) -> bool:
    """Tell whether a process is gone or a zombie that nobody has waited for."""
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def wait_until(condition: Callable[[], bool], *, deadline_s: float = 60) -> None:
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def test_a_compiled_function_with_another_number_of_parameters_is_refused_before_it_runs(
    tmp_path: Path,
) -> None:
    require_tools(TVM_FFI)
    solution = TVM_FFI.solution(TVM_RETURNS, destination_passing_style=True)

    with pytest.raises(BuildError, match=r"takes 2 arguments.*called with \(x, factor, y\)"):
        build(solution, SIGNATURE, cache_root=tmp_path)


def test_cpp_sources_include_headers_and_link_with_each_other(tmp_path: Path) -> None:
    import torch

    require_tools(TVM_FFI)
    main = TVM_HEAD + '#include "deep/twice.h"\n' + TVM_INTO.removeprefix(TVM_HEAD)
    main = main.replace("fill(x, factor, y)", "fill(x, twice(factor), y)")
    solution = TVM_FFI.solution(main)
    more = [
        SourceFile(path="deep/twice.h", content='extern "C" double twice(double);\n'),
        SourceFile(path="deep/twice.c", content="double twice(double class) { return 2*class; }\n"),
    ]
    solution = solution.model_copy(update={"sources": [*solution.sources, *more]})

    runnable = build(solution, SIGNATURE, cache_root=tmp_path)

    assert runnable.call_value_returning(torch.ones(1), 3.0).tolist() == [6.0]


NOWHERE = "int nowhere(int);\n"
CALLED = 'extern "C" int __tvm_ffi_run(void*, void*, int, void*) {\n  return nowhere(2); }\n'
ON_DEVICE = """\
namespace of { template <typename T> __device__ T nowhere(T); }
__global__ void kernel(float* y) {
  y[0] = of::nowhere(1.0f);
}
"""


@pytest.mark.parametrize(
    ("case", "source", "says"),
    [
        (TVM_FFI, NOWHERE + CALLED, "./main.cpp:3: undefined reference to `nowhere(int)'"),
        (CUDA, NOWHERE + CALLED, "./main.cu:3: undefined reference to `nowhere(int)'"),
        (CUDA, ON_DEVICE, "./main.cu:3: error: undefined reference to 'float of::nowhere<float>("),
        (
            TORCH,
            NOWHERE + CPYTHON_EXTENSION.replace("return PyModule", "nowhere(2); return PyModule"),
            "./main.cpp:19: error: undefined reference to 'nowhere(int)'",
        ),
    ],
    ids=["cpp", "cuda-host", "cuda-device", "torch"],
)
def test_a_symbol_that_is_nowhere_defined_is_a_build_error_with_the_line_that_uses_it(
    case: Case, source: str, says: str, tmp_path: Path
) -> None:
    require_tools(case)

    with pytest.raises(BuildError) as caught:
        build(case.solution(source), SIGNATURE, cache_root=tmp_path)

    assert says in str(caught.value)
    assert any(line.startswith(says) for line in caught.value.log.splitlines())


@pytest.mark.parametrize(("flags", "keeps"), [([], False), (["-g"], True)])
def test_a_binary_has_debug_information_only_where_a_solution_asks_for_it(
    flags: list[str], keeps: bool, tmp_path: Path
) -> None:
    require_tools(TVM_FFI)
    solution = TVM_FFI.solution(TVM_INTO, compile_options={"cflags": flags})

    runnable = build(solution, SIGNATURE, cache_root=tmp_path)

    assert (b".debug_info" in Path(runnable.metadata.misc["binary"]).read_bytes()) is keeps


@pytest.mark.parametrize("case", [TVM_FFI, TORCH], ids=lambda case: case.label)
def test_without_a_compiler_the_package_to_install_is_named(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(ToolchainMissingError, match=r"apt-get install g\+\+"):
        build(case.writing_into, SIGNATURE, cache_root=tmp_path)


@pytest.mark.full  # two compilations by nvcc each
@pytest.mark.parametrize("case", [CUDA, CUDA_TORCH], ids=lambda case: case.label)
def test_another_architecture_is_another_build(case: Case, shared_cache: Path) -> None:
    require_tools(case)
    targets = [BuildTarget("cpu", arch) for arch in ("sm_80", "sm_90", "sm_90a")]

    built = [
        build(case.writing_into, SIGNATURE, target=target, cache_root=shared_cache)
        for target in targets
    ]

    folders = [runnable.metadata.misc["folder"] for runnable in built]
    assert folders[0] != folders[1] == folders[2]


@pytest.mark.parametrize("case", [CUDA, CUDA_TORCH], ids=lambda case: case.label)
def test_without_a_cuda_toolkit_the_way_to_get_one_is_named(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flashinfer_bench.compile.cuda._candidates", lambda: iter([tmp_path]))

    with pytest.raises(ToolchainMissingError, match=r"pip install 'flashinfer-bench\[cuda\]'"):
        build(case.writing_into, SIGNATURE, cache_root=tmp_path)


@pytest.mark.parametrize("case", [TRITON, TILELANG], ids=lambda case: case.label)
def test_without_a_languages_package_its_extra_is_named(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    with pytest.raises(ToolchainMissingError, match=rf"'flashinfer-bench\[{case.language}\]'"):
        build(case.writing_into, SIGNATURE, cache_root=tmp_path)


def test_a_torch_py_among_the_sources_does_not_stand_in_for_torch(tmp_path: Path) -> None:
    import torch

    source = f"import torch\nfrom .torch import MARK\nSEEN = torch\n{PYTHON_INTO}"
    solution = PYTHON.solution(source)
    fake = SourceFile(path="torch.py", content="MARK = 'fake'\n")
    solution = solution.model_copy(update={"sources": [*solution.sources, fake]})

    runnable = build(solution, SIGNATURE, cache_root=tmp_path)

    assert runnable.callable.__globals__["SEEN"] is torch
    assert runnable.callable.__globals__["MARK"] == "fake"
    assert sys.modules["torch"] is torch


ATEN = """\
#include <torch/extension.h>
void run(const torch::Tensor& x, double factor, torch::Tensor y) { y.copy_(x * factor); }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &run); }
"""


@pytest.mark.full
def test_a_torch_extension_with_all_of_aten_builds_and_runs(tmp_path: Path) -> None:
    """Slow (20 s): the only test that compiles `torch/extension.h`."""
    import torch

    require_tools(TORCH)

    runnable = build(TORCH.solution(ATEN), SIGNATURE, cache_root=tmp_path)

    assert runnable.call_value_returning(torch.ones(2), 3.0).tolist() == [3.0, 3.0]


@pytest.mark.parametrize("case", [CASES[1], CASES[2]], ids=lambda case: case.label)
def test_a_solutions_own_flags_reach_the_compiler(case: Case, cache: Path) -> None:
    needed = f"#ifndef WANTED\n#error no flag\n#endif\n{case.returns}"
    flags = {"cflags": ["-DWANTED"]}

    with pytest.raises(BuildError):
        build(case.solution(needed, destination_passing_style=False), SIGNATURE)
    made = case.solution(
        needed, name="flagged", destination_passing_style=False, compile_options=flags
    )

    assert torch.equal(build(made, SIGNATURE)(torch.ones(3), 2.0), torch.full((3,), 2.0))
