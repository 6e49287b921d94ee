"""A process that builds one callable, runs it on inputs made from seeds, and commits its outputs.

It is told a signature, input plans and the seed of each call when that call is prepared. What it answers
is believed by nobody: the judge reads the outputs from shared memory and compares them itself.

One long file: all that is bound and fixed before a solution loads stands together.
"""

from __future__ import annotations

import gc
import os
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from flashinfer_bench.bench.candidate.graphs import CallGraphs, replayed
from flashinfer_bench.bench.candidate.integrity import IntegrityCheck
from flashinfer_bench.bench.channel import Channel
from flashinfer_bench.bench.protocol import (
    Build,
    BuildFailed,
    Built,
    BuiltElsewhere,
    Committed,
    Done,
    Finished,
    FromCandidate,
    Go,
    GraphsRecorded,
    Inspect,
    Inspected,
    Keep,
    Kept,
    OpenBlock,
    OpenTrial,
    OpenWorkload,
    OutputFault,
    Prepare,
    QuickChecked,
    Raised,
    RecordGraphs,
    Repeat,
    Repeated,
    Returned,
    RunPhase,
    Spin,
    ToCandidate,
    UseCache,
)
from flashinfer_bench.bench.timing.clocks import clock_for
from flashinfer_bench.bench.timing.device_work import spin_call
from flashinfer_bench.bench.timing.hold import place_table
from flashinfer_bench.compile import Runnable, build
from flashinfer_bench.compile.builder import compile_ahead
from flashinfer_bench.compile.targets import BuildTarget
from flashinfer_bench.data import Signature, Solution, build_options
from flashinfer_bench.errors import BuildError, DeviceError, ToolchainMissingError
from flashinfer_bench.tensors import generated_inputs
from flashinfer_bench.tensors import outputs as outgoing
from flashinfer_bench.tensors.aliasing import aliases, is_mapped_twice, lie_apart
from flashinfer_bench.tensors.blobs import tensors_from_descriptor
from flashinfer_bench.tensors.devices import Device, open_device
from flashinfer_bench.tensors.dtypes import torch_dtype
from flashinfer_bench.tensors.generate import InputMaker, as_torch_is
from flashinfer_bench.tensors.machine import processors_for
from flashinfer_bench.tensors.planned import mutated_of, untouched_of

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

    from flashinfer_bench.bench.protocol import Phase
    from flashinfer_bench.bench.timing.wall import Clock
    from flashinfer_bench.tensors.planned import InputPlan, TensorPlan

_now_ns = time.perf_counter_ns  # bound before any solution is loaded
_MOST_NAMED = 4
_BALLAST_ELEMENTS = 1 << 16  # enough for torch to use all its threads
_OUR_FILES = str(Path(__file__).parents[2])


def serve(sock: socket.socket) -> None:
    """Answer requests until the channel closes."""
    channel: Channel[ToCandidate] = Channel(sock, ToCandidate)
    request = channel.receive()
    assert isinstance(request, Build)
    if request.only_compiles:
        compile_only(channel, request)
        return
    harness = build_harness(channel, request)
    if harness is None:
        return
    while True:
        try:
            request = channel.receive()
            channel.send(_answer(harness, request, channel))
        except OSError as error:
            sys.stderr.write(f"the answer channel broke: {error}; did the solution close it?\n")
            return


def given_solution(request: Build) -> Solution:
    """Read what is to be built; the parent has checked its options, and may have added some of ours."""
    return Solution.model_validate_json(request.solution, context={build_options.WITH_OURS: True})


def compile_only(channel: Channel[Any], request: Build) -> bool:
    """Do what compilers do of a build, on any cores; no device is opened. Says how that went, and tells it."""
    solution = given_solution(request)
    try:
        compile_ahead(solution, request.arch, Path(request.cache_root))
    except BuildError as error:
        channel.send(_failed(request, error))
        return False
    channel.send(Built(request.id))
    return True


def _failed(request: Build, error: BuildError) -> BuildFailed:
    is_missing = isinstance(error, ToolchainMissingError)
    return BuildFailed(request.id, _printable(str(error)), _printable(error.log), is_missing)


def build_harness(channel: Channel[Any], request: Build) -> _Harness | None:
    """Build a callable and say how that went; None where there is nothing to call."""
    torch.set_num_threads(request.threads)
    _keep_to_cores(request.threads, request.rank, request.ranks)
    device = open_device(request.device)
    clock = clock_for(device.torch_device, request.clock, request.cache)
    integrity = IntegrityCheck()
    integrity.include([device, clock, *vars(clock).values()])
    try:
        runnable = build(
            given_solution(request),
            Signature.model_validate_json(request.signature),
            target=BuildTarget(request.device, request.arch, request.arguments),
            cache_root=Path(request.cache_root),
        )
    except BuildError as error:
        channel.send(_failed(request, error))
        return None
    if runnable.metadata.absence is not None:
        channel.send(BuiltElsewhere(request.id, runnable.metadata.absence))
        return None
    channel.send(Built(request.id))
    return _Harness(runnable, device, clock, integrity)


def _keep_to_cores(count: int, rank: int, ranks: int) -> None:
    """Give every candidate the same cores: cores differ in neighbours and in what their caches hold.

    Each of several ranks has its own, the same for every candidate, where there are so many.
    """
    cores = processors_for(count * ranks, os.sched_getaffinity(0))
    own = cores[rank * count : (rank + 1) * count]
    os.sched_setaffinity(0, own if len(own) == count else cores)


def _wait_until(at_ns: int) -> int:
    """Keep busy until the common start of all ranks; return how much later it is."""
    while (late_ns := _now_ns() - at_ns) < 0:
        pass
    return late_ns


def _answer(
    harness: _Harness, request: ToCandidate, channel: Channel[ToCandidate]
) -> FromCandidate:
    try:
        match request:
            case OpenWorkload():
                return harness.open_workload(request, channel.take_descriptors())
            case OpenTrial() | RunPhase() | OpenBlock() | UseCache() | Prepare():
                _get_ready(harness, request)
                return Done(request.id)
            case RecordGraphs():
                return harness.record_graphs(request)
            case Go():
                return harness.go(request, channel)
            case Spin():
                return harness.spin(request, channel)
            case Repeat():
                return harness.repeat(request)
            case Inspect(id=id_):
                return harness.inspect(id_)
            case Keep():
                return harness.keep(request)
            case Build(id=id_):
                return Raised(id_, "a candidate builds once")
    except BaseException as error:  # noqa: BLE001  # a solution may raise anything; this is the boundary
        return Raised(request.id, told(error))


def _get_ready(
    harness: _Harness, request: OpenTrial | RunPhase | OpenBlock | UseCache | Prepare
) -> None:
    if isinstance(request, RunPhase):
        harness.run_phase(request.phase)
        return
    gc.disable()  # a collector's callbacks are code of the solution's, and inputs are made here
    try:
        match request:
            case OpenTrial():
                harness.open_trial(request)
            case OpenBlock(host_ns=host_ns):
                harness.open_block(host_ns)
            case UseCache(is_cold=is_cold):
                harness.use_cache(is_cold=is_cold)
            case Prepare():
                harness.prepare(request)
    finally:
        gc.enable()


class _Harness:
    """The state of one candidate: its callable, its inputs, its place to put outputs."""

    FIXED_ATTRIBUTES = (
        *("_integrity", "_call", "_prepare", "_plan", "_takes_outputs", "_has_output_buffers"),
        *("_least_outputs", "_device", "_clock", "_plans", "_maker", "_shared", "_spin"),
        *("_returned", "_shapes", "_dtypes", "_inputs", "_graphs"),
    )

    def __init__(
        self, runnable: Runnable, device: Device, clock: Clock, integrity: IntegrityCheck
    ) -> None:
        self._integrity = integrity
        self._call: Callable[..., Any] = runnable.callable
        self._prepare, self._plan = runnable.prepare, runnable.plan
        self._state: tuple[Any, ...] = ()
        self._phase_inputs: dict[Phase, list[Any]] = {}
        self._takes_outputs = runnable.metadata.destination_passing_style
        self._has_output_buffers = self._takes_outputs
        self._least_outputs = 0
        self._device = device
        self._clock = clock
        self._plans: tuple[TensorPlan, ...] = ()
        self._returned: tuple[TensorPlan, ...] = ()
        self._shapes: tuple[torch.Size, ...] = ()
        self._dtypes: tuple[torch.dtype, ...] = ()
        self._inputs: tuple[InputPlan, ...] = ()
        self._maker: InputMaker | None = None
        self._shared: outgoing.SharedOutputs | None = None
        self._output_sets: list[list[torch.Tensor]] = []
        self._input_sets: list[list[Any]] = []
        self._calls: list[tuple[Any, ...]] = []
        self._places: torch.Tensor | None = None
        """Where inputs of all sets may change, as the hold reads it."""
        self._placed_sets = 0
        self._base_bytes: int | None = None
        self._unclear: list[list[Any]] = []
        self._returned_sets: list[list[Any]] = []
        """What the calls of the last sample gave back, until the next is prepared."""
        self._in_order: _InOrder | None = None
        self._graphs: CallGraphs | None = None
        self._ballast = torch.zeros(_BALLAST_ELEMENTS)
        self._spin = spin_call(device.torch_device)
        self._host_ns: float | None = None
        """What the clock was told to hide."""

    def open_workload(self, request: OpenWorkload, descriptors: list[int]) -> Done:
        self._integrity.damage()  # what is done between workloads is noticed as well
        shared, *rest = descriptors
        self._open_hold(rest.pop() if request.has_start_word else None)
        files = tensors_from_descriptor(rest[0], request.inputs) if request.has_files else {}
        self._plans, self._inputs = request.outputs, request.inputs
        self._returned = request.outputs[: request.returned]
        self._shapes = tuple(torch.Size(plan.torch_shape) for plan in self._plans)
        self._dtypes = tuple(torch_dtype(plan.dtype) for plan in self._plans)
        self._least_outputs = request.least_outputs
        self._has_output_buffers = self._takes_outputs or request.has_output_buffers
        made = generated_inputs.read(rest[-1], request.inputs) if request.has_generated else ()
        self._maker = InputMaker(
            request.inputs, self._device.torch_device, files=files, generated=made
        )
        self._integrity.leave(())
        self._shared = outgoing.SharedOutputs(
            shared,
            request.outputs,
            request.slot_count,
            self._device.torch_device,
            is_on_device=request.outputs_on_device,
        )
        self._host_ns = None
        self._clock.begin()
        self._output_sets, self._input_sets, self._calls = [], [], []
        self._base_bytes = None
        self._in_order = None
        device = self._device.torch_device
        self._graphs = CallGraphs(device, _as_list) if request.replays_graphs else None
        self._include_parts()
        for descriptor in descriptors:
            os.close(descriptor)
        return Done(request.id)

    def _include_parts(self) -> None:
        parts = [self, self._maker, self._shared, self._device, self._clock, self._graphs]
        self._integrity.include([*parts, *vars(self._clock).values()], plans=self._plans)

    def use_cache(self, *, is_cold: bool) -> None:
        """Have the clock evict caches before each sample, or leave them alone."""
        self._integrity.damage()  # before what is looked at changes
        self._clock.use_cache(is_cold=is_cold)
        self._include_parts()

    def open_trial(self, request: OpenTrial) -> None:
        """Draw fresh pools, and copy what the solution's own phases will be given."""
        assert self._maker is not None
        self._forget_graphs()
        self._maker.open_trial(request.seed, shared_seed=request.shared_seed)
        self._integrity.leave(self._maker.writers)
        self._state = ()
        if self._prepare is not None:
            self._phase_inputs["prepare"] = self._maker.inputs_of_role("static")
        if self._plan is not None:
            self._phase_inputs["plan"] = self._maker.inputs_of_role("metadata")
        self._device.synchronize()

    def run_phase(self, phase: Phase) -> None:
        """Run a phase of the solution's on what stays the same for a trial; the judge takes the time."""
        inputs = self._phase_inputs.pop(phase)
        if phase == "prepare":
            assert self._prepare is not None
            self._state = (self._prepare(*inputs),)
        else:
            assert self._plan is not None
            (state,) = self._state or (None,)
            planned = self._plan(state, *inputs)
            self._state = (state if planned is None else planned,)
        self._device.synchronize()

    def open_block(self, host_ns: float | None) -> None:
        """Move to other pages: where a buffer lies in physical memory is luck that should not last."""
        assert self._maker is not None
        if host_ns is not None:
            self._host_ns = host_ns
            self._clock.begin(host_ns)
        self._forget_graphs()
        self._maker.forget_buffers()
        self._placed_sets = 0
        self._integrity.leave(())
        self._output_sets, self._input_sets, self._calls = [], [], []
        self._returned_sets = []
        self._device.give_memory_back()

    def _forget_graphs(self) -> None:
        if self._graphs is not None:
            self._graphs.forget()

    def record_graphs(self, request: RecordGraphs) -> GraphsRecorded:
        """Record calls that the next samples will replay, all anew; what they are given is of no other use."""
        assert self._graphs is not None
        self.prepare(Prepare(request.id, request.seed, request.count))
        fault = self._graphs.record(self._call, self._calls)
        self._clock.get_ready()  # what recording left behind is no part of preparing a sample
        return GraphsRecorded(request.id, fault)

    def prepare(self, request: Prepare) -> None:
        assert self._maker is not None
        self._integrity.find(self._maker.writers)
        if not self._maker.are_as_made():
            self._maker.forget_buffers()
            self._placed_sets = 0
        self._returned_sets = []
        seed, count = request.seed, request.count
        is_repeated = request.repeat is not None
        self._input_sets = self._maker.prepare(
            seed,
            count,
            family=request.family,
            is_repeated=is_repeated,
            change=request.change,
            shared_seed=request.shared_seed,
        )
        self._integrity.leave(self._maker.writers)
        self._device.seed_generators(seed + (request.repeat or 0))  # a replay draws the same again
        if self._has_output_buffers:
            self._poison(count)
        self._calls = [(*self._state, *inputs) for inputs in self._input_sets]
        if self._takes_outputs:
            pairs = zip(self._calls, self._output_sets, strict=False)
            self._calls = [(*arguments, *buffers) for arguments, buffers in pairs]
        self._get_hold_ready(count)
        self._device.synchronize()
        self._clock.get_ready()
        if self._base_bytes is None:
            self._device.reset_peak()
            self._base_bytes = self._device.peak_bytes()

    def _open_hold(self, descriptor: int | None) -> None:
        self._places, self._placed_sets = None, 0
        if self._clock.hold is not None:
            self._clock.hold.open(descriptor)
        elif descriptor is not None:
            raise DeviceError("the driver refuses the kernel that holds calls, and took it before")

    def _get_hold_ready(self, count: int) -> None:
        """Tell the hold where inputs may change: found out anew where there are more sets of them."""
        hold = self._clock.hold
        if hold is None or not hold.is_open:
            return
        assert self._maker is not None
        sets = self._maker.sets
        if self._placed_sets != len(sets):
            device = self._device.torch_device
            self._places, self._placed_sets = place_table(self._inputs, sets, device), len(sets)
        places = self._places
        hold.get_ready(None if places is None else places[: len(places) // len(sets) * count])

    def go(self, request: Go, channel: Channel[ToCandidate]) -> QuickChecked:
        """Run the prepared calls, say so at once, commit what they gave back, then check it quickly."""
        gc.disable()  # until all is committed: a collector's callbacks are code of the solution's
        id_ = request.id
        in_order = self._in_order
        call, calls = self._what_is_timed()
        try:
            late_ns = 0 if request.at_ns is None else _wait_until(request.at_ns)
            elapsed_ns, results = self._clock.time_ns(
                call, calls, lambda: channel.send(Finished(id_))
            )
            count, clock = len(self._calls), self._clock
            kept = clock.host_ns, clock.launches, clock.is_hidden
            channel.send(Returned(id_, elapsed_ns, count, *kept, late_ns))
            sets = [
                self._output_sets[slot] if self._takes_outputs else _as_list(result)
                for slot, result in enumerate(results)
            ]
            fault, held = self._commit(
                self._with_written(sets), self._with_written(self._ordered(sets))
            )
            channel.send(Committed(id_, fault, self._missing(sets)))
        finally:
            gc.enable()
        self._bring(held)
        is_direct = in_order is None and self._graphs is None
        if is_direct and not self._takes_outputs and _is_for_later(sets):
            self._in_order = _InOrder(self._call)
        is_clear = self._takes_outputs or self._lie_apart(sets)
        self._unclear = [] if is_clear else sets
        self._returned_sets = sets
        return QuickChecked(id_, is_clear)

    def _what_is_timed(self) -> tuple[Callable[..., Any], Sequence[Sequence[Any]]]:
        """Give the prepared calls: the solution's own code, or replays of what it recorded."""
        if self._graphs is None:
            return self._in_order or self._call, self._calls
        return replayed, [(each,) for each in self._graphs.first(len(self._calls))]

    def _ordered(self, sets: list[list[Any]]) -> list[list[Any]]:
        """Give the outputs of the sample, put in order where they lay in other strides."""
        if self._takes_outputs:
            return sets
        if self._graphs is not None:
            return [each.in_order for each in self._graphs.first(len(sets))]
        return sets if self._in_order is None else self._in_order.take()

    def use_exact_outputs(self) -> None:
        """Give the next call outputs of their size and no more, for a sanitizer to see the first byte beyond."""
        device = self._device.torch_device
        self._output_sets = [
            [
                torch.empty(plan.torch_shape, dtype=torch_dtype(plan.dtype), device=device)
                for plan in self._returned
            ]
        ]

    def call_untimed(self) -> None:
        """Run the prepared calls, and wait for the device."""
        for arguments in self._calls:
            self._call(*arguments)
        self._device.synchronize()

    def spin(self, request: Spin, channel: Channel[ToCandidate]) -> QuickChecked:
        """Do all that `go` does, around something that only keeps processors busy."""
        busy = self._spin_on_all_cores if request.on_all_cores else self._spin
        if request.host_ns is not None:
            self._clock.begin(request.host_ns)
        elapsed_ns, _ = self._clock.time_ns(
            busy, [(request.duration_ns,)], lambda: channel.send(Finished(request.id))
        )
        if request.host_ns is not None:
            self._clock.begin(self._host_ns)
        count = len(self._calls)
        channel.send(Returned(request.id, elapsed_ns, count))
        self._allocate(count)
        buffers = self._with_written(self._output_sets[:count])
        fault, held = self._commit(buffers, buffers)
        channel.send(Committed(request.id, fault))
        self._bring(held)
        return QuickChecked(request.id, is_clear=True)

    def repeat(self, request: Repeat) -> Repeated:
        """Run the prepared calls again and again; on a card never more than two rounds ahead of it."""
        call, calls = self._what_is_timed()
        pace = self._device.pace()
        count, started_ns = 0, _now_ns()
        while _now_ns() - started_ns < request.duration_ns or not count:
            for arguments in calls:
                call(*arguments)
            count += len(calls)
            pace()
        self._device.synchronize()
        if self._in_order is not None:
            self._in_order.take()
        return Repeated(request.id, max(1, _now_ns() - started_ns), count)

    @as_torch_is()
    def _commit(
        self, sets: Sequence[Sequence[Any]], in_order: Sequence[Sequence[Any]]
    ) -> tuple[OutputFault | None, list[list[torch.Tensor | None]]]:
        """Copy outputs to where the judge can see them; not what does not fit there.

        `in_order`: the same outputs, put in order within the timed window where they lay in other strides.

        From a card to the host that takes long enough for work to hide behind it. Then they are first copied on the
        card, which does not, and returned; `_bring` does the rest.
        """
        assert self._shared is not None
        self._integrity.look_for_modes()
        for returned in sets:
            fault = self._mismatch(returned)
            if fault is not None:
                return fault, []
        if not self._shared.arrives_late:
            self._shared.write(in_order)
            self._device.synchronize()
            return None, []
        held = [
            [None if out is None else out.detach().clone() for out in produced]
            for produced in in_order
        ]
        self._device.synchronize()
        return None, held

    def _with_written(self, sets: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """Put what the calls wrote into their inputs behind what they gave back."""
        if len(self._plans) == len(self._returned):
            return [list(outputs) for outputs in sets]
        return [
            [*_padded(outputs, len(self._returned)), *mutated_of(self._inputs, inputs)]
            for outputs, inputs in zip(sets, self._input_sets, strict=False)
        ]

    @as_torch_is()
    def _bring(self, held: Sequence[Sequence[torch.Tensor | None]]) -> None:
        assert self._shared is not None
        self._shared.write(held)

    def _mismatch(self, produced: Sequence[Any]) -> OutputFault | None:
        if outgoing.are_plain(produced, self._shapes, self._dtypes, self._device.torch_device):
            return None
        if not self._least_outputs <= len(produced) <= len(self._plans):
            has_optional = self._least_outputs < len(self._returned)
            written = len(self._plans) - len(self._returned)
            said = self._miscounted(produced[: len(produced) - written])
            return OutputFault("shape" if has_optional else "count", said)
        for number, (output, plan) in enumerate(zip(produced, self._plans, strict=False)):
            if output is None and self._least_outputs <= number < len(self._returned):
                continue
            found = outgoing.mismatch(output, plan, self._device.torch_device)
            if found is not None:
                return OutputFault(*found)  # type: ignore[arg-type]  # codes are the literals
        return None

    def _miscounted(self, returned: Sequence[Any]) -> str:
        names = ", ".join(plan.name for plan in self._returned)
        kinds = ", ".join(type(each).__name__ for each in returned[:_MOST_NAMED])
        more = ", …" if len(returned) > _MOST_NAMED else ""
        came = f" It returned ({kinds}{more})." if returned else ""
        counted = f"{len(returned)} outputs, {len(self._returned)} declared"
        return f"{counted}.{came} Return tensors only, in this order: {names}"

    def _missing(self, sets: Sequence[Sequence[Any]]) -> tuple[int, ...]:
        """Tell which of the outputs that may be missing are, in any of the calls."""
        optional = range(self._least_outputs, len(self._returned))
        return tuple(
            number
            for number in optional
            if any(len(outs) <= number or outs[number] is None for outs in sets)
        )

    @as_torch_is()
    def _lie_apart(self, sets: Sequence[list[Any]]) -> bool:
        assert self._maker is not None
        return lie_apart(sets, self._maker.sets)

    @as_torch_is()
    def inspect(self, id_: int) -> Inspected:
        """Look at what the quick check did not clear: whose memory it lies in, and how.

        Only when asked. The judge reads what processor time a sample took when it hears that outputs are committed;
        on a busy machine that is late, and this would count as work of the solution.
        """
        assert self._maker is not None
        sets, self._unclear = self._unclear, []
        found = aliases(sets, self._maker.sets, self._returned)
        overlaps = None if found.fault is None else OutputFault("overlap", found.fault)
        there = ([o for o in outs if isinstance(o, torch.Tensor)] for outs in sets)
        strided = (sum(o.numel() for o in outs if not o.is_contiguous()) for outs in there)
        return Inspected(id_, overlaps, found.are_shared, max(strided, default=0))

    def _spin_on_all_cores(self, duration_ns: int) -> None:
        if self._device.torch_device.type != "cpu":
            self._spin(duration_ns)
            return
        until_ns = time.perf_counter_ns() + duration_ns
        while time.perf_counter_ns() < until_ns:
            self._ballast.add_(1)

    def _allocate(self, count: int) -> None:
        while len(self._output_sets) < count:
            self._output_sets.append(outgoing.allocate(self._returned, self._device.torch_device))

    @as_torch_is()
    def _poison(self, count: int) -> None:
        self._allocate(count)
        for buffers in self._output_sets[:count]:
            outgoing.poison(buffers)

    @as_torch_is()
    def keep(self, request: Keep) -> Kept:
        inputs = untouched_of(self._inputs, self._input_sets[request.slot])
        printed = outgoing.fingerprint(inputs)
        peak_bytes = self._device.peak_bytes() if request.asks_peak else 0
        used_bytes = max(0, peak_bytes - (self._base_bytes or 0))
        damage = self._integrity.damage(is_deep=request.asks_peak)
        assert self._maker is not None
        if damage is None and self._maker.is_disguised():
            damage = "what inputs are made of was changed"
        if damage is None and is_mapped_twice(self._input_sets[request.slot]):
            damage = "the memory of an input has a second address"
        if damage is None and is_mapped_twice(self._returned_sets[request.slot]):
            damage = "the memory of an output has a second address"
        return Kept(request.id, printed, used_bytes, damage, self._overrun(request.slot))

    def _overrun(self, slot: int) -> str | None:
        """Say beside which output a call wrote that was given buffers to write into."""
        if not self._takes_outputs:
            return None
        found = map(outgoing.overrun, self._output_sets[slot])
        beside = zip(found, self._returned, strict=True)
        return next((f"{where} of output {each.name!r}" for where, each in beside if where), None)


class _InOrder:
    """Calls a solution and puts what it gave back into the declared order, for which it pays.

    Otherwise the copy of outputs after the clock has stopped would take longer by as much as a solution likes.
    """

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call
        self._taken: list[list[Any]] = []

    def __call__(self, *arguments: Any) -> Any:
        result = self._call(*arguments)
        self._taken.append([_contiguous(output) for output in _as_list(result)])
        return result

    def take(self) -> list[list[Any]]:
        """Give the outputs since the last time this was asked."""
        taken, self._taken = self._taken, []
        return taken


def _contiguous(output: Any) -> Any:
    return output.resolve_neg().contiguous() if type(output) is torch.Tensor else output


def _is_for_later(sets: Sequence[Sequence[Any]]) -> bool:
    """Tell whether a copy has something to do that a call could have done: other strides, signs to be turned."""
    there = (each for outputs in sets for each in outputs if isinstance(each, torch.Tensor))
    return any(each.is_neg() or not each.is_contiguous() for each in there)


def _padded(outputs: Sequence[Any], count: int) -> list[Any]:
    """Give at least so many outputs; None for each that is missing."""
    return [*outputs, *[None] * (count - len(outputs))]


def _as_list(result: object) -> list[Any]:
    """Take a call's outputs: what is in a tuple or list, not what a subclass says is in it."""
    if isinstance(result, tuple):
        return list(tuple.__iter__(result))
    if isinstance(result, list):
        return list(list.__iter__(result))
    return [result]


def told(error: BaseException) -> str:
    """Return the traceback without this package's frames."""
    whole = traceback.TracebackException.from_exception(error)
    frames = [frame for frame in whole.stack if not frame.filename.startswith(_OUR_FILES)]
    whole.stack = traceback.StackSummary.from_list(frames)
    return _printable("".join(whole.format()))


def _printable(text: str) -> str:
    """Replace lone surrogates, which neither messages nor JSON can carry."""
    return text.encode(errors="replace").decode()
