"""Which calls are kept, and which of their inputs are written down."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar

from flashinfer_bench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from flashinfer_bench.tracing.records import WorkloadEntry


class InputDumpPolicy(ABC):
    """Chooses the inputs whose contents are written down; the others are drawn at random later."""

    @abstractmethod
    def select(self, inputs: Mapping[str, Any]) -> list[str]:
        """Name the inputs to write down; `inputs` are the call's own, not to be changed or kept."""


def chosen_inputs(policy: Any, inputs: Mapping[str, Any]) -> list[str]:
    """Ask a policy, ours or one with `dump(inputs)` that gives names, or inputs by name."""
    choose = getattr(policy, "select", None) or policy.dump
    return list(choose(inputs))


class DumpAll(InputDumpPolicy):
    """Every tensor."""

    def select(self, inputs: Mapping[str, Any]) -> list[str]:
        """Name all tensors."""
        return [name for name, value in inputs.items() if _is_tensor(value)]


class DumpNone(InputDumpPolicy):
    """Nothing: shapes are all that matters."""

    def select(self, inputs: Mapping[str, Any]) -> list[str]:  # noqa: ARG002
        """Name none."""
        return []


class DumpInt(InputDumpPolicy):
    """Integer and bool tensors: indices, page tables and masks, which cannot be drawn at random."""

    def select(self, inputs: Mapping[str, Any]) -> list[str]:
        """Name the tensors that hold neither floats nor complex numbers."""
        return [
            name
            for name, value in inputs.items()
            if _is_tensor(value)
            and not value.dtype.is_floating_point
            and not value.dtype.is_complex
        ]


def _is_tensor(value: object) -> bool:
    return hasattr(value, "dtype") and bool(getattr(value, "shape", ()) or hasattr(value, "ndim"))


class FilterPolicy:
    """Decides which calls are kept.

    Subclasses say `admits`, by sizes alone and before anything is copied. A policy that can choose only
    once it has seen many calls overrides `submit` and `drain` instead: what is submitted to it was copied,
    and lies in memory until `drain`.
    """

    is_steady: ClassVar[bool] = False
    """Whether sizes that were turned away are turned away again, until the next `drain`."""
    never_rejects: ClassVar[bool] = False
    """Whether every call is kept."""

    _kept: list[WorkloadEntry] | None = None

    def admits(self, axes: Mapping[str, int]) -> bool:  # noqa: ARG002
        """Decide about the next call of these sizes, and count it if it is kept."""
        return True

    def submit(self, entry: WorkloadEntry) -> None:
        """Offer an entry, to be kept until `drain` or dropped."""
        if self.admits(entry.axes):
            self._kept = [*(self._kept or ()), entry]

    def drain(self) -> list[WorkloadEntry]:
        """Hand over what was kept since the last time."""
        kept, self._kept = self._kept, None
        return kept or []

    def reset(self) -> None:
        """Forget everything."""
        self._kept = None


class ForeignFilter(FilterPolicy):
    """A policy of any class with `submit`, `drain` and perhaps `reset`."""

    def __init__(self, policy: Any) -> None:
        self._policy = policy

    def submit(self, entry: WorkloadEntry) -> None:
        """Hand the entry on."""
        self._policy.submit(entry)

    def drain(self) -> list[WorkloadEntry]:
        """Take what it kept."""
        return list(self._policy.drain())

    def reset(self) -> None:
        """Let it forget, where it can."""
        getattr(self._policy, "reset", list)()


class KeepAll(FilterPolicy):
    """Every call."""

    never_rejects = True


class KeepNone(FilterPolicy):
    """No call."""

    is_steady = True

    def admits(self, axes: Mapping[str, int]) -> bool:  # noqa: ARG002
        """Turn everything away."""
        return False


class KeepFirstK(FilterPolicy):
    """The first k calls, and k more after each drain."""

    is_steady = True

    def __init__(self, k: int) -> None:
        self.k = _positive(k)
        self._count = 0

    def admits(self, axes: Mapping[str, int]) -> bool:  # noqa: ARG002
        """Keep until k are kept."""
        self._count += 1
        return self._count <= self.k

    def drain(self) -> list[WorkloadEntry]:
        """Hand over what was kept, and start to count anew."""
        self._count = 0
        return super().drain()

    def reset(self) -> None:
        """Forget everything."""
        super().reset()
        self._count = 0


class KeepFirst(KeepFirstK):
    """The first call, and one more after each drain."""

    def __init__(self) -> None:
        super().__init__(k=1)


class KeepFirstKByAxes(FilterPolicy):
    """The first k calls of each size; a drain does not start the count anew."""

    is_steady = True

    def __init__(self, k: int = 1) -> None:
        self.k = _positive(k)
        self._counts: Counter[Hashable] = Counter()

    def key(self, axes: Mapping[str, int]) -> Hashable:
        """Give what two calls have in common that count as the same size."""
        return frozenset(axes.items())

    def admits(self, axes: Mapping[str, int]) -> bool:
        """Keep until k of this size are kept."""
        key = self.key(axes)
        if self._counts[key] >= self.k:
            return False
        self._counts[key] += 1
        return True

    def reset(self) -> None:
        """Forget everything."""
        super().reset()
        self._counts.clear()


class Attention(KeepFirstKByAxes):
    """The first k calls of each average length per sequence: exact token counts hardly ever repeat.

    Averages are taken over the `len_indptr - 1` sequences: of `num_kv_indices`, or `total_kv` where the cache is
    not paged, and of `total_q`. Sizes that give no average count as they are.
    """

    _AVERAGED = frozenset(("num_pages", "total_q", "len_indptr", "num_kv_indices", "total_kv"))

    def key(self, axes: Mapping[str, int]) -> Hashable:
        """Put averages in the place of totals."""
        averages = attention_averages(axes)
        if averages is None:
            return super().key(axes)
        others = {name: size for name, size in axes.items() if name not in self._AVERAGED}
        return frozenset((others | averages).items())


def attention_averages(axes: Mapping[str, int]) -> dict[str, int] | None:
    """Average key and query lengths per sequence, rounded; None where the sizes do not tell.

    >>> attention_averages({"num_pages": 100, "len_indptr": 5, "num_kv_indices": 400, "total_q": 4})
    {'avg_kv_len': 100, 'avg_q_len': 1}
    """
    sequences = axes.get("len_indptr", 0) - 1
    tokens = axes.get("num_kv_indices", axes.get("total_kv"))
    if sequences < 1 or tokens is None:
        return None
    queries = axes.get("total_q", sequences)
    return {"avg_kv_len": round(tokens / sequences), "avg_q_len": round(queries / sequences)}


def _positive(k: int) -> int:
    if type(k) is not int or k < 1:
        raise UsageError(f"k is {k!r}; a filter keeps a whole number of calls, 1 or more")
    return k
