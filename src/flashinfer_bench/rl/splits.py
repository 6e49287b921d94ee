"""Which workloads and definitions a loop trains on, and which it never sees: `train`, `validation`, sealed `test`."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from flashinfer_bench.data.wording import did_you_mean
from flashinfer_bench.errors import DatasetError, UsageError
from flashinfer_bench.rl.verdicts import Split

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from flashinfer_bench.data import Definition, Workload

SPLITS: tuple[Split, ...] = get_args(Split)
FILE = "splits.json"
_HELD_OUT = 0.2
"""Share of `validation`, and of `test`."""
_FEWEST = 5
"""With fewer definitions none is held out as a whole."""


@dataclass(frozen=True, slots=True)
class DeclaredSplits:
    """What a dataset's `splits.json` says; names it leaves out follow from hashes."""

    definitions: Mapping[str, Split] = field(default_factory=dict)
    workloads: Mapping[str, Split] = field(default_factory=dict)
    """By uuid."""

    @classmethod
    def of(cls, roots: Iterable[Path]) -> DeclaredSplits:
        """Read the files of a dataset's folders; a later folder goes before an earlier one."""
        found: dict[str, dict[str, Split]] = {"definitions": {}, "workloads": {}}
        for file in (Path(root) / FILE for root in roots):
            if file.is_file():
                for kind, names in _read(file).items():
                    found[kind] |= names
        return cls(**found)


def require_split(name: str) -> Split:
    """Give the split of that name."""
    if name not in SPLITS:
        raise UsageError(
            f"no split {name!r}; there are {', '.join(SPLITS)}{did_you_mean(name, SPLITS)}"
        )
    return name


def split_of_workloads(
    definition: str, workloads: Sequence[Workload], declared: DeclaredSplits
) -> dict[str, Split]:
    """Say which split each workload of a definition is of, by uuid; small ones and full ones are split apart."""
    classes: dict[str | None, list[str]] = defaultdict(list)
    for each in workloads:
        classes[each.size_class].append(each.uuid)
    found: dict[str, Split] = {}
    for uuids in classes.values():
        found |= _with_declared(uuids, definition, declared.workloads)
    return found


def definitions_of(split: Split, names: Iterable[str], declared: DeclaredSplits) -> list[str]:
    """Name the definitions of a split, in their order.

    A fifth is `test` and a fifth `validation`, each by its own hash, so that a new definition moves no other. With
    fewer than five undeclared ones each of these is of every split: their workloads are split all the same.
    """
    names = list(names)
    free = [name for name in names if name not in declared.definitions]
    if len(free) < _FEWEST:
        return [name for name in names if declared.definitions.get(name, split) == split]
    return [name for name in names if declared.definitions.get(name, _drawn(name)) == split]


def _drawn(name: str) -> Split:
    share = int.from_bytes(hashlib.sha256(f"definitions\0{name}".encode()).digest()[:8]) / 2**64
    if share < _HELD_OUT:
        return "test"
    return "validation" if share < 2 * _HELD_OUT else "train"


def chosen(
    definition: Definition,
    workloads: Sequence[Workload],
    split: Split,
    declared: DeclaredSplits,
) -> list[Workload]:
    """Give the workloads of a split; `UsageError` where there are none, or the definition itself is held out."""
    own = declared.definitions.get(definition.name)
    if own == "test" and split != "test":
        raise UsageError(
            f"{definition.name} is sealed: {FILE} declares it as test; judge it with --split test"
        )
    splits = split_of_workloads(definition.name, workloads, declared)
    found = [each for each in workloads if splits[each.uuid] == split]
    if not found:
        counts = ", ".join(f"{list(splits.values()).count(each)} {each}" for each in SPLITS)
        raise UsageError(
            f"{definition.name} has no workload of the split {split} for this kind of device ({counts}); "
            f"declare splits in the dataset's {FILE} (docs/training-loops.md)"
        )
    return found


def _with_declared(
    names: Sequence[str], kind: str, declared: Mapping[str, Split]
) -> dict[str, Split]:
    free = [name for name in names if name not in declared]
    return _by_hash(free, kind) | {name: declared[name] for name in names if name in declared}


def _by_hash(names: Iterable[str], kind: str) -> dict[str, Split]:
    """Hold out a fifth for each of `test` and `validation`, and one at least where there are three or more."""
    ranked = sorted(names, key=lambda name: hashlib.sha256(f"{kind}\0{name}".encode()).digest())
    held = max(round(_HELD_OUT * len(ranked)), 1 if len(ranked) >= len(SPLITS) else 0)
    found: dict[str, Split] = dict.fromkeys(ranked, "train")
    found |= dict.fromkeys(ranked[held : 2 * held], "validation")
    return found | dict.fromkeys(ranked[:held], "test")


def _read(file: Path) -> dict[str, dict[str, Split]]:
    try:
        content = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise DatasetError(f"cannot be read as JSON: {error}", path=file) from error
    if not isinstance(content, dict) or not content.keys() <= {"definitions", "workloads"}:
        raise DatasetError(
            "it must hold `definitions` and `workloads`, and nothing else", path=file
        )
    for kind, names in content.items():
        if not isinstance(names, dict):
            raise DatasetError(f"{kind} must be an object: split by name", path=file)
        for name, split in names.items():
            if split not in SPLITS:
                raise DatasetError(
                    f"{kind}: {name!r} has no split {split!r}; use {', '.join(SPLITS)}", path=file
                )
    return content
