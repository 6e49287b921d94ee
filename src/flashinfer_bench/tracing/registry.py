"""Policies by name; a program may add its own."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from flashinfer_bench.errors import UsageError
from flashinfer_bench.tracing import policies

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from flashinfer_bench.tracing.policies import FilterPolicy, InputDumpPolicy

Dump = TypeVar("Dump", bound=type[Any])
Filter = TypeVar("Filter", bound=type[Any])


class PolicyRegistry:
    """The names a `TracingConfig` may use; registered by a call or by a decorator.

    >>> @PolicyRegistry.register_filter_policy("example_of_even_batches")
    ... class EvenBatches(policies.FilterPolicy):
    ...     def admits(self, axes):
    ...         return axes["batch"] % 2 == 0
    >>> PolicyRegistry.get_filter_policy("example_of_even_batches").__name__
    'EvenBatches'
    """

    _dumps: ClassVar[dict[str, type[InputDumpPolicy]]] = {
        "dump_all": policies.DumpAll,
        "dump_none": policies.DumpNone,
        "dump_int": policies.DumpInt,
    }
    _filters: ClassVar[dict[str, type[FilterPolicy]]] = {
        "keep_all": policies.KeepAll,
        "keep_none": policies.KeepNone,
        "keep_first": policies.KeepFirst,
        "keep_first_k": policies.KeepFirstK,
        "keep_first_k_by_axes": policies.KeepFirstKByAxes,
        "attention": policies.Attention,
    }

    @classmethod
    def register_input_dump_policy(
        cls, name: str, policy: Dump | None = None, *, override: bool = False
    ) -> Any:
        """Add a dump policy; without a class, give a decorator that does."""
        return _added(
            cls._dumps, "input dump policy", name, policy, ("dump", "select"), override=override
        )

    @classmethod
    def register_filter_policy(
        cls, name: str, policy: Filter | None = None, *, override: bool = False
    ) -> Any:
        """Add a filter policy; without a class, give a decorator that does."""
        return _added(cls._filters, "filter policy", name, policy, ("submit",), override=override)

    @classmethod
    def get_input_dump_policy(cls, name: str) -> type[InputDumpPolicy] | None:
        """Find a dump policy; None where there is none of the name."""
        return cls._dumps.get(name)

    @classmethod
    def get_filter_policy(cls, name: str) -> type[FilterPolicy] | None:
        """Find a filter policy; None where there is none of the name."""
        return cls._filters.get(name)

    @classmethod
    def list_input_dump_policies(cls) -> list[str]:
        """Name the dump policies."""
        return sorted(cls._dumps)

    @classmethod
    def list_filter_policies(cls) -> list[str]:
        """Name the filter policies."""
        return sorted(cls._filters)


Policy = TypeVar("Policy")


def made(policy: Callable[..., Policy], name: str, arguments: Mapping[str, Any]) -> Policy:
    """Make a policy; arguments that it does not take are an error that says which it takes."""
    try:
        return policy(**arguments)
    except TypeError:
        declared = inspect.signature(policy)
        raise UsageError(f"policy {name!r} takes {declared}, not {dict(arguments)}") from None


def _added(
    known: dict[str, Any],
    kind: str,
    name: str,
    policy: Any,
    methods: tuple[str, ...],
    *,
    override: bool,
) -> Any:
    if name in known and not override:
        raise UsageError(f"{kind} {name!r} exists already; override=True replaces it")

    def add(added: Any) -> Any:
        if not isinstance(added, type):
            raise UsageError(f"{kind} {name!r} must be a class, not {added!r}")
        if not any(hasattr(added, method) for method in methods):
            wanted = " or ".join(f"{method}()" for method in methods)
            raise UsageError(f"{kind} {name!r}: {added.__name__} has no {wanted}")
        known[name] = added
        return added

    return add if policy is None else add(policy)
