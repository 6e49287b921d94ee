"""The truth about one workload: its inputs from the run's key, and what the reference makes of them."""

from __future__ import annotations

import hashlib
import hmac
import traceback
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode

from flashinfer_bench.compile import build
from flashinfer_bench.compile.reference import reference_solution
from flashinfer_bench.errors import BenchError, BuildError
from flashinfer_bench.judging import JUDGES, Tolerance, Verdict, judge_name
from flashinfer_bench.judging.elementwise import rms_error
from flashinfer_bench.tensors.blobs import load_files
from flashinfer_bench.tensors.generate import InputMaker
from flashinfer_bench.tensors.outputs import fingerprint, mismatch
from flashinfer_bench.tensors.planned import WINDOWED_DTYPES, plan_inputs, plan_outputs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from flashinfer_bench.data import Definition, Workload
    from flashinfer_bench.tensors.devices import Device

_GATE_FACTOR = 10.0  # the reference must agree with itself ten times better than solutions must


class ReferenceFailedError(Exception):
    """The definition or workload is at fault."""


class Truth:
    """Makes inputs and expected outputs for any trial and call of one workload."""

    def __init__(
        self,
        definition: Definition,
        workload: Workload,
        *,
        roots: Sequence[str],
        device: Device,
        key: int,
        cache_root: Path,
    ) -> None:
        self._definition = definition
        self._judge = JUDGES[judge_name(definition)]
        self._device = device
        self._name = f"{definition.name}\0{workload.uuid}"
        self._key = key.to_bytes(8, "little")
        try:
            self.inputs = plan_inputs(definition, workload)
            self.outputs = plan_outputs(definition, workload)
            self.files = load_files(self.inputs, roots)
            solution, signature = reference_solution(definition), definition.signature()
            self._reference = build(solution, signature, cache_root=cache_root).callable
        except BuildError as error:
            raise ReferenceFailedError(f"{error}\n{error.log}") from error
        except BenchError as error:
            raise ReferenceFailedError(str(error)) from error
        self._maker = InputMaker(self.inputs, device.torch_device, files=self.files)
        self._trial = -1
        self._first_outputs: dict[int, list[torch.Tensor]] = {}
        self._precise: list[torch.Tensor] | None = None
        self._has_tried_precise = False
        self._sound_at: Tolerance | None = None

    def use_key(self, key: int) -> None:
        """Take the key of another job: what was made from the last one is forgotten."""
        if key.to_bytes(8, "little") == self._key:
            return
        self._key = key.to_bytes(8, "little")
        self._trial = -1
        self._first_outputs.clear()
        self._precise, self._has_tried_precise = None, False

    @property
    def size_bytes(self) -> int:
        """Memory this holds: pools, one set of inputs, first outputs and their float64 twins."""
        inputs = sum(plan.tensor.size_bytes for plan in self.inputs)
        return 2 * inputs + 4 * sum(plan.size_bytes for plan in self.outputs)

    def trial_seed(self, trial: int) -> int:
        """Seed of a trial's pools: depends on key, definition, workload and trial only."""
        return self._seed(f"pools\0{trial}")

    def call_seed(self, trial: int, call: int) -> int:
        """Seed of a call's windows and scales."""
        return self._seed(f"call\0{trial}\0{call}")

    def inputs_of(self, trial: int, call: int, count: int = 1) -> list[list[Any]]:
        """Make the input sets of a sample again; valid until the next time this is called."""
        if trial != self._trial:
            self._maker.open_trial(self.trial_seed(trial))
            self._trial = trial
        return self._maker.prepare(self.call_seed(trial, call), count)

    def expected_of_first(self, trial: int) -> list[torch.Tensor]:
        """Return the outputs of a trial's call 0, which every solution is checked on."""
        if trial not in self._first_outputs:
            produced = self.run(self.inputs_of(trial, 0)[0])
            # A copy: they may be views of the inputs, or a buffer the reference uses again.
            self._first_outputs[trial] = [output.clone() for output in produced]
        return self._first_outputs[trial]

    def run(self, arguments: Sequence[Any]) -> list[torch.Tensor]:
        """Run the reference; what it raises or returns wrong is the dataset's fault."""
        torch.manual_seed(0)
        try:
            result = self._reference(*arguments)
            self._device.synchronize()
        except (
            Exception,
            SystemExit,
        ) as error:  # whatever a reference raises is the dataset's fault
            raise ReferenceFailedError(
                f"the reference raised\n{''.join(traceback.format_exception(error, limit=-3))}"
            ) from error
        produced = list(result) if isinstance(result, tuple | list) else [result]
        self._require_declared(produced)
        return produced

    def judge(
        self, got: Sequence[torch.Tensor], expected: Sequence[torch.Tensor], tolerance: Tolerance
    ) -> Verdict:
        """Compare all outputs of one call."""
        verdict = Verdict(is_accepted=True)
        for plan, ours, theirs in zip(self.outputs, got, expected, strict=True):
            found = self._judge(ours, theirs, tolerance)
            if found.explanation:
                place = f"output {plan.name!r}"
                found = replace(found, explanation=f"{place}: {found.explanation}")
            verdict = verdict.merged(found)
        return verdict

    def require_sound(self, tolerance: Tolerance) -> None:
        """The definition gate: declared shapes, inputs untouched, the same answer twice."""
        if self._sound_at == tolerance:
            return
        arguments = self.inputs_of(0, 0)[0]
        before = fingerprint(arguments)
        first = [output.clone() for output in self.run(arguments)]
        if fingerprint(arguments) != before:
            raise ReferenceFailedError("the reference changes its inputs")
        verdict = self.judge(self.run(arguments), first, tolerance.tightened(_GATE_FACTOR))
        if not verdict.is_accepted:
            raise ReferenceFailedError(
                f"the reference does not agree with itself when run twice: {verdict.explanation}"
            )
        self._first_outputs[0] = first
        self._sound_at = tolerance

    def precision(self, got: Sequence[torch.Tensor]) -> dict[str, float] | None:
        """Compare errors against a float64 run of the reference on call 0 of trial 0.

        Root mean square error of the solution, of the reference in its own precision, and their ratio;
        `None` where the reference does not run in float64.
        """
        precise = self._precise_outputs()
        if precise is None:
            return None
        native = self.expected_of_first(0)
        floating = [i for i, out in enumerate(native) if out.dtype.is_floating_point]
        ours = max(rms_error(got[i], precise[i]) for i in floating)
        reference = max(rms_error(native[i], precise[i]) for i in floating)
        figures = {"solution_rms_error": ours, "reference_rms_error": reference}
        if reference > 0:
            figures["ratio"] = ours / reference
        return figures

    def _precise_outputs(self) -> list[torch.Tensor] | None:
        if self._has_tried_precise:
            return self._precise
        self._has_tried_precise = True
        if not any(plan.dtype in WINDOWED_DTYPES for plan in self.outputs):
            return None
        arguments = [_widened(value) for value in self.inputs_of(0, 0)[0]]
        if sum(_size_bytes(value) for value in arguments) * 2 > self._device.available_bytes():
            return None
        self._precise = _run_in_double(self._reference, arguments, self.expected_of_first(0))
        return self._precise

    def _require_declared(self, produced: list[Any]) -> None:
        if len(produced) != len(self.outputs):
            raise ReferenceFailedError(
                f"the reference returns {len(produced)} outputs; {len(self.outputs)} are declared"
            )
        for output, plan in zip(produced, self.outputs, strict=True):
            found = mismatch(output, plan, self._device.torch_device)
            if found is not None:
                raise ReferenceFailedError(f"the reference's {found[1]}")

    def _seed(self, purpose: str) -> int:
        message = f"{self._name}\0{purpose}".encode()
        digest = hmac.digest(self._key, message, hashlib.sha256)
        return int.from_bytes(digest[:8], "little") >> 1


class _InDouble(TorchFunctionMode):
    """Turns every request for a narrower float type into one for float64."""

    _NARROW = frozenset({torch.float32, torch.float16, torch.bfloat16})

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: object,  # torch's protocol
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if func in (torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16):
            return args[0].double()
        widened = {name: self._wide(value) for name, value in (kwargs or {}).items()}
        return func(*(self._wide(value) for value in args), **widened)

    def _wide(self, value: Any) -> Any:
        return torch.float64 if isinstance(value, torch.dtype) and value in self._NARROW else value


def _run_in_double(
    reference: Callable[..., Any], arguments: Sequence[Any], native: Sequence[torch.Tensor]
) -> list[torch.Tensor] | None:
    default = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        with _InDouble():
            result = reference(*arguments)
    except Exception:  # noqa: BLE001  # many references cannot run in float64; then there is no figure
        return None
    finally:
        torch.set_default_dtype(default)
    produced = list(result) if isinstance(result, tuple | list) else [result]
    is_wide = all(
        wide.shape == narrow.shape and (wide.dtype is torch.float64 or wide.dtype == narrow.dtype)
        for wide, narrow in zip(produced, native, strict=True)
    )
    has_gained = any(wide.dtype is torch.float64 for wide in produced)
    return produced if is_wide and has_gained else None


def _widened(value: Any) -> Any:
    is_float = isinstance(value, torch.Tensor) and value.dtype.is_floating_point
    return value.double() if is_float else value


def _size_bytes(value: Any) -> int:
    return value.numel() * value.element_size() if isinstance(value, torch.Tensor) else 0
