"""What is traced of which definition."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from flashinfer_bench.errors import UnknownNameError, UsageError
from flashinfer_bench.tracing.policies import (
    FilterPolicy,
    ForeignFilter,
    InputDumpPolicy,
    chosen_inputs,
)
from flashinfer_bench.tracing.registry import PolicyRegistry, made

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class _InputsOfList(InputDumpPolicy):
    """The inputs of a list."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(names)

    def select(self, inputs: Mapping[str, Any]) -> list[str]:
        for name in self._names:
            if name not in inputs:
                raise UnknownNameError("input to dump", name, inputs)
        return self._names


@dataclass(frozen=True)
class TracingConfig:
    """Which calls of a definition are kept, and which of their inputs are written down."""

    input_dump_policy: str | list[str] = "dump_none"
    """A policy's name, or the names of the inputs. Scalars are always written down."""
    input_dump_policy_kwargs: dict[str, Any] = field(default_factory=dict)
    filter_policy: str = "keep_all"
    filter_policy_kwargs: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse names and arguments that no policy has, here and not at the first call."""
        self.create_input_dump_policy()
        self.create_filter_policy()

    def create_input_dump_policy(self) -> InputDumpPolicy:
        """Make the policy that chooses inputs."""
        chosen = self.input_dump_policy
        if isinstance(chosen, str):
            policy = PolicyRegistry.get_input_dump_policy(chosen)
            if policy is None:
                known = PolicyRegistry.list_input_dump_policies()
                raise UnknownNameError("input dump policy", chosen, known)
            return made(policy, chosen, self.input_dump_policy_kwargs)
        is_iterable = isinstance(chosen, Iterable)  # the types are not checked in callers' programs
        if not is_iterable or not all(isinstance(name, str) for name in chosen):
            raise UsageError(
                f"input_dump_policy is a policy's name, or names of inputs, not {chosen!r}"
            )
        return _InputsOfList(chosen)

    def create_filter_policy(self) -> FilterPolicy:
        """Make a policy that chooses calls, with counts of its own."""
        policy = PolicyRegistry.get_filter_policy(self.filter_policy)
        if policy is None:
            known = PolicyRegistry.list_filter_policies()
            raise UnknownNameError("filter policy", self.filter_policy, known)
        chosen: object = made(policy, self.filter_policy, self.filter_policy_kwargs)
        return chosen if isinstance(chosen, FilterPolicy) else ForeignFilter(chosen)

    def get_inputs_to_dump(self, names: Sequence[str], values: Sequence[Any]) -> dict[str, Any]:
        """Pick the inputs to write down from a call's, in order."""
        inputs = dict(zip(names, values, strict=True))
        return {
            name: inputs[name] for name in chosen_inputs(self.create_input_dump_policy(), inputs)
        }


@dataclass
class TracingConfigRegistry:
    """Settings by definition, by op type, and for all others; the first that is there holds."""

    default: TracingConfig | None = None
    """For definitions that nothing else names; None leaves them untraced."""
    per_definition: dict[str, TracingConfig] = field(default_factory=dict)
    per_op_type: dict[str, TracingConfig] = field(default_factory=dict)

    def get(self, name: str, op_type: str | None = None) -> TracingConfig | None:
        """Find the settings of a definition; None: it is not traced."""
        found = self.per_definition.get(name)
        if found is None and op_type is not None:
            found = self.per_op_type.get(op_type)
        return self.default if found is None else found

    def register(self, name: str, config: TracingConfig, *, override: bool = False) -> Self:
        """Set one definition's; gives the registry."""
        if name in self.per_definition and not override:
            raise UsageError(f"{name!r} has settings already; override=True replaces them")
        self.per_definition[name] = _config(name, config)
        return self

    def register_many(
        self, configs: Mapping[str, TracingConfig], *, override: bool = False
    ) -> Self:
        """Set several definitions', all or none; gives the registry."""
        taken = [] if override else sorted(configs.keys() & self.per_definition.keys())
        if taken:
            raise UsageError(f"{taken} have settings already; override=True replaces them")
        self.per_definition |= {name: _config(name, each) for name, each in configs.items()}
        return self


def _config(name: str, config: object) -> TracingConfig:
    if not isinstance(config, TracingConfig):
        raise UsageError(f"settings of {name!r} are a {type(config).__name__}, not a TracingConfig")
    return config
