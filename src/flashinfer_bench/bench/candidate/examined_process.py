"""A process that builds one solution and calls it while a tool looks: built, shut in and fed as when it is timed.

It answers to the parent, not to the judge: nothing it says is a result. What tools write lies in its scratch folder.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from flashinfer_bench.bench.candidate.harness import (
    build_harness,
    compile_only,
    given_solution,
    told,
)
from flashinfer_bench.bench.channel import Channel
from flashinfer_bench.bench.protocol import (
    CALL_FILE,
    CUPTI_FILE,
    PROFILED_RANGE,
    TORCH_FILE,
    BecomeProgram,
    Build,
    BuildTold,
    Examine,
    Examined,
    OpenTrial,
    Prepare,
    Raised,
    TellBuild,
    ToExamined,
)
from flashinfer_bench.compile.cache import solution_folder
from flashinfer_bench.compile.compiler import BUILD_LOG
from flashinfer_bench.compile.instructions import counted_in_ptx, counted_in_sass
from flashinfer_bench.data import settings
from flashinfer_bench.tensors.blobs import tensors_from_descriptor
from flashinfer_bench.tensors.generate import InputMaker

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator, Sequence

    from flashinfer_bench.bench.candidate.harness import _Harness
    from flashinfer_bench.bench.protocol import FromExamined
    from flashinfer_bench.compile.instructions import InstructionCounts
    from flashinfer_bench.tensors.planned import InputPlan

_MOST_LOG_CHARACTERS = 4 << 20
_READER_TIMEOUT_S = 60
_TRITON_READER = "backends/nvidia/bin/cuobjdump"
_DLPACK_CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6}


def serve(sock: socket.socket) -> None:
    """Build, then do what the parent asks until the channel closes."""
    channel: Channel[ToExamined] = Channel(sock, ToExamined)
    request = channel.receive()
    assert isinstance(request, Build)
    os.environ["TRITON_CACHE_DIR"] = (
        f"{request.scratch}/triton"  # so that it holds this call's kernels only
    )
    harness = None
    if request.only_compiles:
        if not compile_only(channel, request):
            return
    else:
        harness = build_harness(channel, request)
    while True:
        asked = channel.receive()
        channel.send(_answer(channel, asked, harness, request))


def _answer(
    channel: Channel[ToExamined], asked: ToExamined, harness: _Harness | None, build: Build
) -> FromExamined:
    try:
        match asked:
            case Examine() if harness is not None:
                return _examine(harness, asked, channel.take_descriptors(), Path(build.scratch))
            case TellBuild():
                return _build_told(asked, _own_folder(build), Path(build.scratch))
            case BecomeProgram():
                _become(asked, channel.take_descriptors(), build)
            case _:
                return Raised(asked.id, "there is nothing that could be called here")
    except BaseException as error:  # noqa: BLE001  # a solution may raise anything; this is the boundary
        return Raised(asked.id, told(error))


# ------------------------------------------------------------------ a call under a tool


def _examine(
    harness: _Harness, request: Examine, descriptors: list[int], scratch: Path
) -> Examined:
    """Make warm calls, then the one that counts; each on inputs of its own."""
    harness.open_workload(request.workload, descriptors)
    if request.by == "exact":
        harness.use_exact_outputs()
    harness.open_trial(OpenTrial(request.id, request.seed))
    for phase in request.phases:
        harness.run_phase(phase)
    *warm, last = request.call_seeds
    for seed in warm:
        harness.prepare(Prepare(request.id, seed, 1))
        harness.call_untimed()
    harness.prepare(Prepare(request.id, last, 1))
    with _TOOLS[request.by](scratch):
        began_ns = time.perf_counter_ns()
        harness.call_untimed()
        elapsed_ns = time.perf_counter_ns() - began_ns
    return Examined(request.id, elapsed_ns)


@contextlib.contextmanager
def _nothing(_: Path) -> Iterator[None]:
    yield


@contextlib.contextmanager
def _markers(_: Path) -> Iterator[None]:
    """Tell a profiler outside of this process when to listen, by CUDA's own calls and by a named range."""
    runtime: Any = torch.cuda.cudart()  # type: ignore[no-untyped-call]  # untyped in torch
    runtime.cudaProfilerStart()
    torch.cuda.nvtx.range_push(PROFILED_RANGE)  # type: ignore[no-untyped-call]  # untyped in torch
    try:
        yield
    finally:
        torch.cuda.nvtx.range_pop()  # type: ignore[no-untyped-call]  # untyped in torch
        runtime.cudaProfilerStop()


@contextlib.contextmanager
def _torch_profiler(scratch: Path) -> Iterator[None]:
    from torch.profiler import ProfilerActivity, profile, record_function  # noqa: PLC0415

    listens_to = [ProfilerActivity.CPU]
    if torch.cuda.is_available():
        listens_to.append(ProfilerActivity.CUDA)
    with profile(activities=listens_to) as profiler, record_function(PROFILED_RANGE):
        yield
    profiler.export_chrome_trace(str(scratch / TORCH_FILE))


@contextlib.contextmanager
def _activity_records(scratch: Path) -> Iterator[None]:
    """Have CUPTI note each kernel as it ran."""
    cupti = importlib.import_module("cupti.cupti")
    records: list[dict[str, Any]] = []

    def keep(activities: list[Any]) -> None:
        records.extend(
            {name: _plain(getattr(each, name, None)) for name in _FIELDS} for each in activities
        )

    subscriber = cupti.subscribe(lambda *_: None, None)
    try:
        cupti.activity_register_callbacks(lambda: (1 << 20, 0), keep)
        cupti.activity_enable(cupti.ActivityKind.CONCURRENT_KERNEL)
        yield
        torch.cuda.synchronize()
        cupti.activity_flush_all(1)
        cupti.activity_disable(cupti.ActivityKind.CONCURRENT_KERNEL)
    finally:
        cupti.unsubscribe(subscriber)
    for each in records:
        each["name"] = _name_in_the_source(str(each["name"] or "?"))
    (scratch / CUPTI_FILE).write_text(json.dumps(records), encoding="utf-8")


def _name_in_the_source(symbol: str) -> str:
    """Write the name of a C++ function as torch's profiler does, which needs no other program.

    >>> _name_in_the_source("_Z11rmsnorm_rowPKfS0_Pfif"), _name_in_the_source("add_kernel")
    ('rmsnorm_row(float const*, float const*, float*, int, float)', 'add_kernel')
    """
    binding: Any = torch._C  # torch has no public way
    return str(binding._demangle(symbol))


_FIELDS = (
    *("name", "start", "end", "registers_per_thread", "static_shared_memory"),
    *("dynamic_shared_memory", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"),
)


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float | str) else None if value is None else str(value)


_TOOLS: dict[str, Callable[[Path], contextlib.AbstractContextManager[None]]] = {
    "none": _nothing,
    "exact": _nothing,
    "markers": _markers,
    "torch": _torch_profiler,
    "cupti": _activity_records,
}


# ------------------------------------------------------------------ what compilers say


def _own_folder(build: Build) -> Path:
    """Give the one entry of the build cache that this process can see."""
    solution = given_solution(build)
    return solution_folder(Path(build.cache_root), solution)


def _build_told(asked: TellBuild, builds: Path, scratch: Path) -> BuildTold:
    logs = sorted(builds.glob(f"*/*/{BUILD_LOG}"))
    text = "\n".join(log.read_text(encoding="utf-8", errors="replace") for log in logs)
    cubins = sorted(scratch.glob("triton/*/*.cubin"))
    resources, why_not = _resources(cubins) if cubins else ("", "no kernel was compiled on the way")
    counts, why_no_sass = (
        _instructions(cubins, builds, scratch) if asked.counts_instructions else ({}, "")
    )
    return BuildTold(
        asked.id,
        _readable(text[:_MOST_LOG_CHARACTERS]),
        _readable(resources[:_MOST_LOG_CHARACTERS]),
        why_not,
        counts,
        why_no_sass,
    )


def _readable(text: str) -> str:
    """Write the names of C++ functions as in the source, where `c++filt` is here."""
    program = shutil.which("c++filt")
    if program is None:
        return text
    done = subprocess.run(
        [program],
        input=text,
        capture_output=True,
        text=True,
        timeout=_READER_TIMEOUT_S,
        check=False,
    )
    return done.stdout if done.returncode == 0 else text


def _resources(cubins: Sequence[Path]) -> tuple[str, str]:
    """Have `cuobjdump` read what each binary asks for."""
    return _dumped("-res-usage", cubins)


def _instructions(
    cubins: Sequence[Path], builds: Path, scratch: Path
) -> tuple[dict[str, InstructionCounts], str]:
    """Count what stands in binaries, or else in PTX that lies beside them; say why it is not SASS."""
    text, why_not = _dumped("-sass", cubins or sorted(builds.glob("*/*/*.so")))
    counts = counted_in_sass(text)
    if not counts:
        why_not = why_not or "cuobjdump names no kernel"
        for each in [*scratch.glob("triton/*/*.ptx"), *builds.glob("*/*/*.ptx")]:
            counts |= counted_in_ptx(each.read_text(encoding="utf-8", errors="replace"))
    names = _readable("\n".join(counts)).splitlines()
    return dict(zip(names, counts.values(), strict=True)), why_not


def _dumped(option: str, binaries: Sequence[Path]) -> tuple[str, str]:
    """Give what `cuobjdump` prints of binaries, or why it does not."""
    reader = _cuobjdump()
    if reader is None:
        return "", "cuobjdump is not here; a CUDA toolkit has it, and so has Triton"
    said = []
    for binary in binaries:
        command = [reader, option, str(binary)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_READER_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired:
            return "", f"cuobjdump took longer than {_READER_TIMEOUT_S} s"
        except OSError as error:
            return "", f"cuobjdump cannot be started: {error.strerror}"
        if done.returncode != 0:
            return "", f"cuobjdump: {done.stderr.strip() or done.returncode}"
        said.append(done.stdout)
    return "\n".join(said), ""


def _cuobjdump() -> str | None:
    found = shutil.which("cuobjdump")
    if found is not None:
        return found
    with contextlib.suppress(ImportError):
        bundled = Path(importlib.import_module("triton").__file__ or "").parent / _TRITON_READER
        return str(bundled) if bundled.is_file() else None
    return None


# ------------------------------------------------------------------ another program in this process's place


def _become(request: BecomeProgram, descriptors: list[int], build: Build) -> NoReturn:
    """Write inputs and calls down, and replace this process, sandbox and all."""
    scratch = Path(build.scratch)
    (binary,) = sorted(_own_folder(build).glob("tvm_ffi/*/*.so"))
    lines = _call_lines(request, descriptors, scratch)
    (scratch / CALL_FILE).write_text("\n".join(lines) + "\n", encoding="utf-8")
    places = {"{binary}": str(binary), "{scratch}": str(scratch)}
    command = [_placed(word, places) for word in request.command]
    environment = settings.environment_copy()
    environment |= {name: _placed(text, places) for name, text in request.environment}
    os.execve(command[0], command, environment)  # noqa: S606  # no shell is wanted


def _placed(text: str, places: dict[str, str]) -> str:
    for mark, path in places.items():
        text = text.replace(mark, path)
    return text


def _call_lines(request: BecomeProgram, descriptors: list[int], scratch: Path) -> Iterator[str]:
    """Say in `one_call.cpp`'s words what to call with what."""
    workload, takes_outputs = request.workload, request.takes_outputs
    _, *rest = descriptors
    files = tensors_from_descriptor(rest[0], workload.inputs) if workload.has_files else {}
    maker = InputMaker(workload.inputs, torch.device("cpu"), files=files)
    maker.open_trial(request.seed)
    (arguments,) = maker.prepare(request.call_seed, 1)
    inputs = list(zip(workload.inputs, arguments, strict=True))
    for place, (_, value) in enumerate(inputs):
        yield _argument_line(f"input{place}", value, scratch)
    returned = workload.outputs[: workload.returned] if takes_outputs else ()
    for place, plan in enumerate(returned):
        empty = torch.empty(plan.torch_shape, dtype=_dtype(plan.dtype), device="meta")
        yield _tensor_line(f"output{place}", empty, "-")
    phases = list(_phase_lines(request, inputs))
    yield from phases
    names = [f"input{place}" for place in range(len(inputs))]
    names += [f"output{place}" for place in range(len(returned))]
    yield f"call {request.entry} {'pass' if phases else '-'} {len(names)} {' '.join(names)}"
    yield from (f"check output{place}" for place in range(len(returned)))


def _phase_lines(request: BecomeProgram, inputs: Sequence[tuple[InputPlan, Any]]) -> Iterator[str]:
    has_state = False
    for phase, symbol in request.phases:
        role = {"prepare": "static", "plan": "metadata"}[phase]
        names = [f"input{place}" for place, (plan, _) in enumerate(inputs) if plan.role == role]
        if phase == "plan" and not has_state:
            yield "none state"
            names = ["state", *names]
        yield f"call {symbol} {'both' if has_state else 'keep'} {len(names)} {' '.join(names)}"
        has_state = True


def _argument_line(name: str, value: Any, scratch: Path) -> str:
    if value is None:
        return f"none {name}"
    if isinstance(value, bool):
        return f"bool {name} {int(value)}"
    if isinstance(value, int | float):
        return f"{type(value).__name__} {name} {value!r}"
    path = scratch / f"{name}.bin"
    tensor = value.contiguous()
    path.write_bytes(tensor.view(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b"")
    return _tensor_line(name, tensor, str(path))


def _tensor_line(name: str, tensor: torch.Tensor, path: str) -> str:
    code, bits = _dlpack_type(tensor.dtype)
    shape = " ".join(map(str, tensor.shape))
    size = tensor.numel() * tensor.element_size()
    return f"tensor {name} {code} {bits} 1 {path} {size} {tensor.ndim} {shape}".rstrip()


def _dtype(name: str) -> torch.dtype:
    from flashinfer_bench.tensors.dtypes import torch_dtype  # noqa: PLC0415

    return torch_dtype(name)


def _dlpack_type(dtype: torch.dtype) -> tuple[int, int]:
    """Give a type's code and width, as DLPack numbers them (`dlpack.h`, DLDataTypeCode)."""
    name = str(dtype).removeprefix("torch.")
    if name in _DLPACK_EIGHT_BITS:
        return _DLPACK_EIGHT_BITS[name], 8
    kind = name.rstrip("0123456789")
    return _DLPACK_CODES[kind], dtype.itemsize * 8


_DLPACK_EIGHT_BITS = {"float8_e4m3fn": 10, "float8_e5m2": 12, "bool": 6}
