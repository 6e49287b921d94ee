"""The process that holds a model: one side of a round, or the check of what a candidate computes.

It answers JSON messages with JSON messages, until the pipe closes.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from flashinfer_bench.deployed.proof import in_use, kernels_of, unused_candidates
from flashinfer_bench.deployed.quality import Reference
from flashinfer_bench.deployed.results import PHASES, ModeUse, PhaseUse
from flashinfer_bench.deployed.served import in_precision, load
from flashinfer_bench.deployed.steps import GRAPH_MODES, calls_of, compiler_counts, steps_of
from flashinfer_bench.errors import BenchError

if TYPE_CHECKING:
    from collections.abc import Callable

    from flashinfer_bench.apply.runtime import ApplyRuntime
    from flashinfer_bench.deployed.steps import Steps

_WARM_STEPS = 3
_MIB = 2**20


class ModelSide:
    """A model in one process, with the solutions of a dataset or without."""

    def __init__(self, task: dict[str, Any]) -> None:
        self.task = task
        self.device: str = task["device"]
        if task["threads"] is not None:
            torch.set_num_threads(task["threads"])
        self.runtime = _runtime(task) if task["dataset"] else None
        self.served = load(
            task["path"],
            device=self.device,
            dtype=getattr(torch, task["dtype"]),
            seed=task["seed"],
        )
        drawn = torch.Generator().manual_seed(task["seed"] + 1)
        shape = (task["rows"], task["prompt"] + task["steps"])
        tokens = torch.randint(0, self.served.vocab_size, shape, generator=drawn)
        self.prompts = tokens[:, : task["prompt"]].to(self.device)
        self.forced = tokens[:, task["prompt"] :].to(self.device)
        self.positions = [
            torch.tensor(task["prompt"] + at, device=self.device) for at in range(task["steps"])
        ]
        self.modes: dict[str, Steps] = {}
        self.graphs: dict[str, int] = {}

    def warm(self, mode: str) -> dict[str, Any]:
        """Run both phases of a mode until nothing is compiled, built or compared any more."""
        steps = self.modes[mode] = steps_of(self.served, mode, self.device)
        took: dict[str, float] = {}
        self._begin(steps)
        for _ in range(_WARM_STEPS):
            for phase in PHASES:
                took[phase] = self._timed(steps, phase, 1)
        use = None if self.runtime is None else asdict(self._use(mode))
        self.graphs[mode] = compiler_counts()["graphs"] if "compiled" in mode else 0
        return {"step_ns": took, "use": use}

    def sample(self, mode: str, phase: str, repeats: int) -> dict[str, Any]:
        """Time a phase: nanoseconds of one step."""
        self._begin(self.modes[mode])
        return {"ns": self._timed(self.modes[mode], phase, repeats)}

    def finish(self, mode: str) -> dict[str, Any]:
        """Say what the process took, and what the compiler did after the warm-up."""
        compiled = compiler_counts() if "compiled" in mode else None
        return {
            "memory_mib": _peak_memory_bytes(self.device) / _MIB,
            "breaks": compiled and compiled["breaks"],
            "recompiles": compiled and compiled["graphs"] - self.graphs[mode],
        }

    def _begin(self, steps: Steps) -> None:
        steps.begin(self.task["rows"], self.task["prompt"] + self.task["steps"])

    def _timed(self, steps: Steps, phase: str, repeats: int) -> float:
        run = self.step_of(steps, phase)
        clock = time.process_time_ns if self.task["clock"] == "cpu" else time.perf_counter_ns
        _wait(self.device)
        began = clock()
        for _ in range(repeats):
            run()
        _wait(self.device)
        calls = repeats * (1 if phase == "prefill" else len(self.positions))
        return (clock() - began) / calls

    def step_of(self, steps: Steps, phase: str) -> Callable[[], object]:
        """Give what is timed: a prompt read, or all tokens that follow it, one after another."""
        if phase == "prefill":
            return lambda: steps.prefill(self.prompts)

        def decode() -> None:
            for at, position in enumerate(self.positions):
                steps.decode(self.forced[:, at : at + 1], position)

        return decode

    def _use(self, mode: str) -> ModeUse:
        """Run a step of each phase, and say who answered its calls; recorded graphs are recorded anew for it."""
        assert self.runtime is not None
        steps = (
            steps_of(self.served, mode, self.device) if mode in GRAPH_MODES else self.modes[mode]
        )
        self._begin(steps)
        phases: dict[str, PhaseUse] = {}
        answered: dict[str, dict[tuple[str, str], int]] = {}
        for phase in PHASES:
            calls = calls_of(mode, phase, len(self.positions))
            before = self.runtime.stats()
            self.step_of(steps, phase)()
            phases[phase], answered[phase] = in_use(before, self.runtime.stats(), calls)
        return unused_candidates(self.runtime, phases, answered, self.task["solutions"])

    # The check

    @torch.inference_mode()
    def judge(self, modes: list[str]) -> dict[str, Any]:
        """Hold the candidate in each mode against what the model's own code shows against itself."""
        task = self.task
        is_double = task["dtype"] == "float32"
        precise = in_precision(self.served, torch.float64 if is_double else torch.float32)
        reference = Reference(self.served, precise, self.prompts, task["steps"])
        del precise
        own: dict[str, Any] = {}
        kernels: dict[str, dict[str, tuple[str, ...]]] = {}
        for mode in modes:
            with _faults_in(own, mode):
                steps = steps_of(self.served, mode, self.device)
                own[mode] = reference.shown(mode, reference.play(steps))
                kernels[mode] = self._kernels(steps)
        torch.compiler.reset()
        found: dict[str, Any] = {}
        with _runtime(task):
            for mode in modes:
                if isinstance(own[mode], str):
                    found[mode] = {"skipped": own[mode]}
                    continue
                with _faults_in(found, mode):
                    steps = steps_of(self.served, mode, self.device)
                    reference.play(steps)  # what is compared with the original answers nothing yet
                    more = () if mode == "eager" else (own[mode],)
                    verdict = reference.judge(reference.play(steps), more)
                    seen = self._kernels(steps)
                    new = {each: sorted({*seen[each]} - {*kernels[mode][each]}) for each in PHASES}
                    found[mode] = {"verdict": asdict(verdict), "device_kernels": new}
                if isinstance(found[mode], str):
                    found[mode] = {"failed": found[mode]}
        return {"modes": found}

    def _kernels(self, steps: Steps) -> dict[str, tuple[str, ...]]:
        self._begin(steps)
        for phase in PHASES:  # a graph is recorded, code is compiled
            self.step_of(steps, phase)()
        return {each: kernels_of(self.step_of(steps, each), self.device) for each in PHASES}


@contextlib.contextmanager
def _faults_in(found: dict[str, Any], name: str) -> Any:
    """Note what a mode raised under its name."""
    try:
        yield
    except Exception as error:  # noqa: BLE001  # one mode's fault is an outcome, not the program's
        found[name] = _said(error)


def _runtime(task: dict[str, Any]) -> ApplyRuntime:
    from flashinfer_bench.apply.runtime import ApplyRuntime  # noqa: PLC0415  # only a candidate has one
    from flashinfer_bench.data import TraceSet  # noqa: PLC0415

    trace_set = TraceSet.from_path(task["dataset"] or task["candidate"])
    chosen = set(task["solutions"])
    if chosen:
        for solutions in trace_set.solutions.values():
            solutions[:] = [each for each in solutions if each.name in chosen]
    return ApplyRuntime(trace_set)


def _wait(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def _peak_memory_bytes(device: str) -> int:
    if device.startswith("cuda"):
        return torch.cuda.max_memory_allocated()
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def _said(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    first = text.splitlines()[0]
    return first if isinstance(error, BenchError) else f"{type(error).__name__}: {first}"


def serve(pipe: Any) -> None:
    """Answer messages; what a request raises is its answer, and ends nothing."""
    side: ModelSide | None = None
    with torch.inference_mode(), contextlib.suppress(EOFError, OSError):
        while True:
            message = json.loads(pipe.recv_bytes())
            name, given = message["do"], message["with"]
            try:
                if name == "load":
                    side = ModelSide(given)
                    if side.runtime is not None:
                        side.runtime.start()
                    answer: dict[str, Any] = {"hardware": _hardware(side.device)}
                else:
                    answer = getattr(side, name)(**given)
            except Exception as error:  # noqa: BLE001  # whatever a model's or a solution's code raises
                answer = {
                    "raised": _said(error),
                    "trace": traceback.format_exc(),
                    "pid": os.getpid(),
                }
            pipe.send_bytes(json.dumps(answer).encode())


def _hardware(device: str) -> str:
    from flashinfer_bench.tensors.machine import processor_name  # noqa: PLC0415

    if device.startswith("cuda"):
        return torch.cuda.get_device_properties(device).name
    return processor_name()
