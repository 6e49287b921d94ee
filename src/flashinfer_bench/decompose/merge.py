"""A dictionary of kernels over many models: datasets are laid into one, each piece of work once.

A definition whose identity is known already adds its workloads, its sources and its counts to the one that is there;
a new one is added under its name, or, where another piece has that name, with a piece of its identity.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from flashinfer_bench.data.appending import storage_error
from flashinfer_bench.data.files import lines_of
from flashinfer_bench.data.folders import folder_files
from flashinfer_bench.data.layout import Layout, files_under
from flashinfer_bench.data.opening import path_inside, read_bytes
from flashinfer_bench.data.profile import KernelReference, KernelUse, Profile
from flashinfer_bench.data.trace import Trace
from flashinfer_bench.data.trace_set import TraceSet
from flashinfer_bench.data.workload import InputSpec, SafetensorsInput, Workload, uuid_of
from flashinfer_bench.decompose.catalogue import FRAMEWORK, identity_of, is_same

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from flashinfer_bench.data.definition import Definition
    from flashinfer_bench.data.entity import Entity
    from flashinfer_bench.data.solution import Solution

DICTIONARY = "kernel_dictionary.json"
_DIGITS = 6


@dataclass
class MergedDictionary:
    """What merging did to a dictionary."""

    added: list[str] = field(default_factory=list)
    """Definitions that were new."""
    shared: list[str] = field(default_factory=list)
    """Definitions that were there already and were met again."""
    workloads: int = 0
    """Workloads that were new."""
    models: list[str] = field(default_factory=list)


def merge(datasets: Iterable[Path], into: Path) -> MergedDictionary:
    """Lay datasets of decomposed models into another, which is made if need be; doing so twice changes nothing."""
    merged = MergedDictionary()
    target = TraceSet.from_path(into) if into.is_dir() else TraceSet.create(into)
    book = _Book(into, target)
    for path in datasets:
        source = TraceSet.from_path(path)
        book.lay_in(path, source, merged)
    book.save()
    _put(into / DICTIONARY, _dictionary(into, target.definitions))
    return merged


class _Book:
    """A dictionary that is being added to; what changes is written by `save`."""

    def __init__(self, root: Path, target: TraceSet) -> None:
        self._layout = Layout(root)
        self._target = target
        self._by_identity = {
            identity: definition.name
            for definition in target.definitions.values()
            if (identity := identity_of(definition)) is not None
        }
        self._changed: dict[str, None] = {}
        self._solutions: list[tuple[Solution, str]] = []
        self._profiles: dict[Path, Profile] = {}

    def lay_in(self, path: Path, source: TraceSet, merged: MergedDictionary) -> None:
        """Add what one dataset holds."""
        names: dict[str, _Names] = {}
        for definition in source.definitions.values():
            names[definition.name] = self._entered(source, definition, merged)
            for trace in source.workloads.get(definition.name, []):
                merged.workloads += self._take_workload(
                    path, trace.workload, names[definition.name]
                )
        for file in map(Path, files_under(Layout(path).profiles, ".json")):
            profile = Profile.load(file)
            merged.models.append(profile.model)
            place = self._layout.profiles / file.relative_to(Layout(path).profiles)
            self._profiles[place] = _renamed_profile(profile, names)

    def _entered(
        self, source: TraceSet, definition: Definition, merged: MergedDictionary
    ) -> _Names:
        """Find a definition in the dictionary, or put it there."""
        identity = identity_of(definition) or definition.hash()
        known = self._by_identity.get(identity)
        if known is not None:
            merged.shared.append(known)
            return self._met_again(definition, self._target.definitions[known])
        name = definition.name
        if name in self._target.definitions:
            name = f"{name}_{identity[:_DIGITS]}"
        added = definition.model_copy(update={"name": name})
        self._target.definitions[name] = added
        self._by_identity[identity] = name
        self._changed[name] = None
        merged.added.append(name)
        self._solutions += [
            (_renamed_solution(each, definition.name, name), definition.op_type)
            for each in source.solutions.get(definition.name, [])
        ]
        return _Names(definition, added)

    def _met_again(self, definition: Definition, known: Definition) -> _Names:
        tags = list(dict.fromkeys([*known.tags, *definition.tags]))
        if tags != known.tags:
            known = known.model_copy(update={"tags": tags})
            self._target.definitions[known.name] = known
            self._changed[known.name] = None
        return _Names(definition, known)

    def _take_workload(self, path: Path, workload: Workload, names: _Names) -> int:
        """Note what a workload is called, and add it unless it is there; 1 if it was not."""
        there = self._target.workloads.setdefault(names.new.name, [])
        translated = names.workload(workload)
        known = (each.workload for each in there if is_same(each.workload, translated))
        names.workloads[workload.uuid] = next(known, translated)
        if names.workloads[workload.uuid] is not translated:
            return 0
        self._copy_blobs(path, workload, translated)
        there.append(Trace(definition=names.new.name, workload=translated))
        self._changed[names.new.name] = None
        return 1

    def _copy_blobs(self, path: Path, old: Workload, new: Workload) -> None:
        for before, after in zip(old.inputs.values(), new.inputs.values(), strict=True):
            if isinstance(before, SafetensorsInput) and isinstance(after, SafetensorsInput):
                content = read_bytes(path_inside(path, before.path), limit=None)
                _put(self._layout.root / after.path, content)

    def save(self) -> None:
        """Write what changed: solutions first, so that no definition is without its baseline."""
        for solution, op_type in self._solutions:
            folder = self._layout.solution_file(solution, op_type).with_suffix("")
            for name, content in folder_files(solution).items():
                _put(folder / name, content)
        for name in self._changed:
            definition = self._target.definitions[name]
            lines = lines_of(self._target.workloads.get(name, []))
            _put(self._layout.workload_file(definition), lines)
            _put(self._layout.definition_file(definition), _json(definition))
        for place, profile in self._profiles.items():
            _put(place, _json(profile))


@dataclass(frozen=True)
class _Names:
    """How a definition's tensors, axes and workloads are called in the dictionary: tensors and axes by position."""

    old: Definition
    new: Definition
    workloads: dict[str, Workload] = field(default_factory=dict)
    """By uuid, what the dictionary has for each."""

    def axes(self, values: Mapping[str, int]) -> dict[str, int]:
        """Call axes as the dictionary does."""
        called = dict(zip(self.old.var_axes, self.new.var_axes, strict=True))
        return {called.get(name, name): value for name, value in values.items()}

    def workload(self, workload: Workload) -> Workload:
        """Write a workload with the dictionary's names."""
        inputs: dict[str, InputSpec] = {
            after: self._moved(workload.inputs[before])
            for before, after in zip(self.old.inputs, self.new.inputs, strict=True)
        }
        axes = self.axes(workload.axes)
        return Workload(
            axes=axes,
            inputs=inputs,
            uuid=uuid_of(self.new.name, axes, inputs),
            size_class=workload.size_class,
            tolerance=workload.tolerance,
            weak=[self._said(each) for each in workload.weak],
        )

    def reference(self, kernel: KernelReference) -> KernelReference:
        """Write what a profile counts with the dictionary's names.

        The workload is always named where it is known: another model may bring one with the same lengths.
        """
        axes = self.axes(kernel.axes)
        meant = [
            there.uuid
            for uuid, there in self.workloads.items()
            if uuid == kernel.workload or (kernel.workload is None and there.axes == axes)
        ]
        workload = meant[0] if len(meant) == 1 else None
        return KernelReference(definition=self.new.name, axes=axes, workload=workload)

    def _said(self, weakness: str) -> str:
        """Say what a wrong kernel does with the dictionary's names: `ignores mask`."""
        called = dict(zip(self.old.inputs, self.new.inputs, strict=True))
        called |= dict(zip(self.old.outputs, self.new.outputs, strict=True))
        words, _, name = weakness.rpartition(" ")
        return f"{words} {called.get(name, name)}"

    def _moved(self, given: InputSpec) -> InputSpec:
        if not isinstance(given, SafetensorsInput):
            return given
        folder = f"{Layout(Path()).blob_workloads}/{self.new.op_type}/{self.new.name}"
        return given.model_copy(update={"path": f"{folder}/{Path(given.path).name}"})


def _renamed_solution(solution: Solution, old: str, new: str) -> Solution:
    if old == new:
        return solution
    name = new + solution.name.removeprefix(old) if solution.name.startswith(old) else solution.name
    return solution.model_copy(update={"definition": new, "name": name})


def _renamed_profile(profile: Profile, names: Mapping[str, _Names]) -> Profile:
    uses = []
    for use in profile.kernels:
        if isinstance(use.kernel, KernelReference) and use.kernel.definition in names:
            kernel = names[use.kernel.definition].reference(use.kernel)
            uses.append(KernelUse(kernel=kernel, count=use.count))
        else:
            uses.append(use)
    return profile.model_copy(update={"kernels": uses})


def _json(entity: Entity) -> bytes:
    return f"{entity.to_json(indent=2)}\n".encode()


def _put(path: Path, content: bytes) -> None:
    """Replace a file at once; merging again makes it anew, so nothing waits for the disk."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(content)
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise storage_error(path, error) from error


def _dictionary(root: Path, definitions: Mapping[str, Definition]) -> bytes:
    """Count the calls of each definition in all models whose profiles lie in the dictionary."""
    counts: dict[str, dict[str, int]] = {name: {} for name in sorted(definitions)}
    for file in sorted((Layout(root).profiles / FRAMEWORK).glob("*.json")):
        profile = Profile.load(file)
        for use in profile.kernels:
            if isinstance(use.kernel, KernelReference) and use.kernel.definition in counts:
                by_model = counts[use.kernel.definition]
                by_model[profile.model] = by_model.get(profile.model, 0) + use.count
    kernels = [
        {
            "definition": name,
            "identity": identity_of(definitions[name]),
            "count": sum(by_model.values()),
            "models": by_model,
        }
        for name, by_model in counts.items()
    ]
    kernels.sort(key=lambda kernel: (-kernel["count"], kernel["definition"]))  # type: ignore[operator]
    return (json.dumps({"schema_version": "1", "kernels": kernels}, indent=1) + "\n").encode()
