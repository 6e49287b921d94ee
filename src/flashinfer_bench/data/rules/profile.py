"""PRO: model profiles can be read, and speak of definitions that exist."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashinfer_bench.data.profile import KernelReference
from flashinfer_bench.data.rules.finding import Level, RuleFault, rule
from flashinfer_bench.data.wording import did_you_mean, listed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flashinfer_bench.data.rules.snapshot import Snapshot

_UNKNOWN = "unknown key"  # how the reader's remark on such a key begins


@rule("PRO-01", Level.ERROR, "correct the file; `flashinfer-bench schema profile` says how")
def profiles_parse(dataset: Snapshot) -> Iterator[RuleFault]:
    """Every profile can be read, the code of its kernels included."""
    for document in dataset.profile_files:
        if document.fault is not None:
            yield RuleFault(document.fault, document.path, document.fault_line)


@rule("PRO-02", Level.WARNING, "take it out: other readers refuse it")
def profiles_are_plain_json(dataset: Snapshot) -> Iterator[RuleFault]:
    """Profiles are plain JSON, without comments and trailing commas."""
    for document in dataset.profile_files:
        for remark in document.remarks:
            if not remark.startswith(_UNKNOWN):
                yield RuleFault(remark, document.path)


@rule("PRO-03", Level.ERROR, "add the definition, or correct the name")
def profiles_refer_to_definitions(dataset: Snapshot) -> Iterator[RuleFault]:
    """Every definition that a profile refers to exists."""
    for path, reference in _references(dataset):
        if reference.definition not in dataset.known_definitions:
            hint = did_you_mean(reference.definition, dataset.known_definitions)
            yield RuleFault(f"refers to {reference.definition!r}, which does not exist{hint}", path)


@rule("PRO-04", Level.ERROR, "give every variable axis a length, and no other")
def profiles_give_the_axes(dataset: Snapshot) -> Iterator[RuleFault]:
    """A reference to a definition gives lengths to its variable axes."""
    for path, reference in _references(dataset):
        definition = dataset.definitions.get(reference.definition)
        if definition is None:
            continue
        missing = [axis for axis in definition.var_axes if axis not in reference.axes]
        strange = [axis for axis in reference.axes if axis not in definition.axes]
        if missing:
            yield RuleFault(f"{definition.name!r}: no length for axis {listed(missing)}", path)
        if strange:
            yield RuleFault(f"{definition.name!r} has no axis {listed(strange)}", path)


@rule("PRO-05", Level.ERROR, "remove it, or correct its spelling")
def profiles_have_known_keys(dataset: Snapshot) -> Iterator[RuleFault]:
    """Profiles have no keys that nothing reads."""
    for document in dataset.profile_files:
        for remark in document.remarks:
            if remark.startswith(_UNKNOWN):
                yield RuleFault(remark, document.path)


def _references(dataset: Snapshot) -> Iterator[tuple[str, KernelReference]]:
    for document in dataset.profile_files:
        for use in document.entity.kernels if document.entity is not None else ():
            if isinstance(use.kernel, KernelReference):
                yield document.path, use.kernel
