"""A built solution: a callable that knows its signature and its calling style."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn

from flashinfer_bench.errors import DeviceError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from flashinfer_bench.data import Definition, Signature, Solution


class CallStyle(enum.Enum):
    """Where a callable puts its results."""

    INTO = "into"
    """Into output tensors passed after the inputs."""
    RETURNS = "returns"
    """It returns one value, or a tuple or list in output order."""

    @classmethod
    def of(cls, *, destination_passing: bool) -> CallStyle:
        """Read the file format's flag."""
        return cls.INTO if destination_passing else cls.RETURNS


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnableMetadata:
    """What a runnable was built from."""

    build_type: str
    """The builder's name."""
    definition_name: str
    solution_name: str
    destination_passing_style: bool = True
    definition: Signature | Definition | None = None
    """Axes, inputs and outputs; `build` gives the signature, which holds no reference."""
    misc: Mapping[str, Any] = field(default_factory=dict)
    """Facts of the builder: entry symbol, module name, binary."""
    absence: str | None = None
    """Why it cannot run here, such as "built for sm_90, no CUDA device"; None when it can."""

    @classmethod
    def of(
        cls, solution: Solution, signature: Signature, *, build_type: str, misc: Mapping[str, Any]
    ) -> RunnableMetadata:
        """Describe a build of `solution`."""
        return cls(
            build_type=build_type,
            definition_name=solution.definition,
            solution_name=solution.name,
            destination_passing_style=solution.spec.destination_passing_style,
            definition=signature,
            misc=misc,
        )

    @property
    def call_style(self) -> CallStyle:
        """The calling style as we name it."""
        return CallStyle.of(destination_passing=self.destination_passing_style)


class Runnable:
    """A callable with its metadata; `callable` is the solution's own, nothing wrapped around it.

    `prepare` and `plan` are there when the solution names them; the callable then takes their state
    first.
    """

    __slots__ = ("_cleaner", "callable", "metadata", "plan", "prepare")

    def __init__(
        self,
        callable: Callable[..., Any],  # noqa: A002 - the public name in the ecosystem
        metadata: RunnableMetadata,
        cleaner: Callable[[], None] | None = None,
        *,
        prepare: Callable[..., Any] | None = None,
        plan: Callable[..., Any] | None = None,
    ) -> None:
        self.callable = callable
        self.metadata = metadata
        self.prepare = prepare
        self.plan = plan
        self._cleaner = cleaner

    def __repr__(self) -> str:
        """Name the solution, how it was built and how it is called."""
        built = self.metadata
        return f"<Runnable {built.solution_name} ({built.build_type}, {built.call_style.value})>"

    def __call__(self, *args: object) -> Any:
        """Call in the solution's own style; `()` becomes None, a one-tuple its element."""
        result = self.callable(*args)
        return _unpacked(result) if isinstance(result, tuple) else result

    def call_kwargs(self, **arguments: object) -> Any:
        """Call with arguments by their names in the definition; a missing one is a `KeyError`."""
        signature = self._require_definition("call_kwargs")
        names = list(signature.inputs)
        if self.metadata.destination_passing_style:
            names += list(signature.outputs)
        return self(*(arguments[name] for name in names))

    def call_destination_passing(self, *args: Any) -> None:
        """Call with inputs and outputs; results that are returned are copied into the outputs."""
        if self.metadata.destination_passing_style:
            self.callable(*args)
            return
        count = len(self._require_definition("call_destination_passing").outputs)
        inputs, outputs = args[: len(args) - count], args[len(args) - count :]
        _copy_results(self.callable(*inputs), outputs)

    def call_value_returning(self, *args: Any) -> Any:
        """Call with inputs only; outputs to write into are allocated here.

        They lie on the device of the first tensor argument (CPU if there is none), uninitialised,
        with the definition's shapes and dtypes. Gives None, one value, or a tuple in output order.
        """
        if not self.metadata.destination_passing_style:
            return self(*args)
        signature = self._require_definition("call_value_returning")
        outputs = _allocate(signature, args)
        self.callable(*args, *outputs)
        return _unpacked(outputs)

    def elsewhere(self, absence: str) -> Runnable:
        """Copy as a build for a device that is not here: calling it raises `DeviceError`."""

        def refuse(*_: object) -> NoReturn:
            raise DeviceError(f"{self.metadata.solution_name} cannot run here: {absence}")

        return Runnable(refuse, replace(self.metadata, absence=absence), self._cleaner)

    def cleanup(self) -> None:
        """Let go of what the build holds in this process; a second call does nothing.

        The build folder stays: it belongs to every process that uses the cache.
        """
        cleaner, self._cleaner = self._cleaner, None
        if cleaner is not None:
            cleaner()

    def _require_definition(self, call: str) -> Signature | Definition:
        if self.metadata.definition is None:
            raise ValueError(
                f"{call} of {self.metadata.solution_name!r} needs the definition's inputs and "
                "outputs, and its metadata has none"
            )
        return self.metadata.definition


def _unpacked(results: tuple[Any, ...]) -> Any:
    match results:
        case ():
            return None
        case (only,):
            return only
        case _:
            return results


def _copy_results(returned: object, outputs: Sequence[Any]) -> None:
    import torch  # noqa: PLC0415 - tensors begin inside the call

    if returned is None:
        results: Sequence[object] = ()
    else:
        results = returned if isinstance(returned, tuple | list) else (returned,)
    if len(results) != len(outputs):
        raise ValueError(f"the solution returned {len(results)} values for {len(outputs)} outputs")
    for result, output in zip(results, outputs, strict=True):
        if not isinstance(result, torch.Tensor):
            raise ValueError(f"the solution returned a {type(result).__name__}, not a tensor")  # noqa: TRY004 - documented as ValueError
        output.copy_(result)


def _allocate(signature: Signature | Definition, inputs: Sequence[Any]) -> tuple[Any, ...]:
    import torch  # noqa: PLC0415

    from flashinfer_bench.tensors.dtypes import torch_dtype  # noqa: PLC0415

    shapes = signature.get_output_shapes(signature.get_axes_values_from_inputs(inputs))
    tensors = (value for value in inputs if isinstance(value, torch.Tensor))
    device = next((tensor.device for tensor in tensors), torch.device("cpu"))
    return tuple(
        torch.empty(shape or [], dtype=torch_dtype(spec.dtype), device=device)
        for shape, spec in zip(shapes, signature.outputs.values(), strict=True)
    )
