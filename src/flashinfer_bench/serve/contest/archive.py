"""The archive of a contest: frozen, signed, and enough to get its ranking again."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.data import TraceSet
from flashinfer_bench.data.appending import new_folder
from flashinfer_bench.data.entity import Entity
from flashinfer_bench.data.exchange.merging import plan_merge, require_kept
from flashinfer_bench.data.parsing import TextPlace, parse
from flashinfer_bench.errors import BenchError, UsageError
from flashinfer_bench.serve import verifying
from flashinfer_bench.serve.contest import ranking
from flashinfer_bench.serve.contest.messages import ContestBoard, Results
from flashinfer_bench.serve.signing import is_signed, sha256

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from flashinfer_bench.data import Trace
    from flashinfer_bench.serve.contest.messages import EntryRecord
    from flashinfer_bench.serve.signing import SigningKey

_MANIFEST, _SIGNATURE, _RESULTS, _DATASET = (
    "manifest.json",
    "manifest.sig",
    "results.json",
    "dataset",
)
_SIGNED = re.compile(r"([0-9a-f]{64}) ([0-9a-f]{128})\n")
_READ_ONLY = 0o444
_REMEDY = "the contest's dataset was changed by hand"


class Manifest(Entity):
    """What is in an archive."""

    contest: str
    files: dict[str, str]
    """Digests (SHA-256) by path."""


@dataclass(frozen=True, slots=True)
class ArchiveReport:
    """Whether an archive is as it was signed."""

    contest: str | None
    key: str | None
    """What it is signed with."""
    files: int
    traces: int
    faults: tuple[str, ...]
    board: ContestBoard | None
    """The ranking, where it can be relied on."""


def write(dataset: Path, results: Results, key: SigningKey, folder: Path) -> None:
    """Write an archive, whole or not at all; the folder must be new or empty."""
    with new_folder(folder) as staging:
        planned = plan_merge([dataset])
        require_kept(planned.merged, _REMEDY)
        planned.write(staging / _DATASET)
        (staging / _RESULTS).write_text(f"{results.to_json(indent=2)}\n", encoding="utf-8")
        files = {name: sha256((staging / name).read_bytes()) for name in sorted(_files(staging))}
        manifest = Manifest(contest=results.rules.name, files=files)
        content = f"{manifest.to_json(indent=2)}\n".encode()
        (staging / _MANIFEST).write_bytes(content)
        signed = f"{key.public} {key.sign(content)}\n"
        (staging / _SIGNATURE).write_text(signed, encoding="ascii")
        for name in _files(staging):
            (staging / name).chmod(_READ_ONLY)


def verify(folder: Path, key: str | None = None) -> ArchiveReport:
    """Check every byte of an archive, its traces' signatures, and that its ranking follows from them."""
    if not (folder / _MANIFEST).is_file():
        raise UsageError(f"{folder} is no archive of a contest: it has no {_MANIFEST}")
    faults: list[str] = []
    content = (folder / _MANIFEST).read_bytes()
    signer = _signer(folder, content, key, faults)
    manifest = None
    if not faults:
        manifest = parse(Manifest, content, TextPlace(_MANIFEST, None))
        faults += _changed(folder, manifest)
    board, count = None, 0
    if not faults:
        try:
            board, count = _ranked_again(folder, faults)
        except BenchError as error:
            faults.append(str(error))
    return ArchiveReport(
        contest=None if manifest is None else manifest.contest,
        key=signer,
        files=0 if manifest is None else len(manifest.files),
        traces=count,
        faults=tuple(faults),
        board=None if faults else board,
    )


def _signer(folder: Path, content: bytes, key: str | None, faults: list[str]) -> str | None:
    """Find who signed the manifest; a fault where nobody did, or another."""
    try:
        text = (folder / _SIGNATURE).read_bytes().decode("ascii")
    except (OSError, UnicodeDecodeError):
        text = ""
    found = _SIGNED.fullmatch(text)
    if found is None:
        faults.append(f"{_SIGNATURE} is no signature")
        return None
    signer, signature = found.groups()
    if not is_signed(content, signature, signer):
        faults.append(f"{_MANIFEST} is not what was signed")
    elif key is not None and key != signer:
        faults.append(f"it is signed with another key: {signer}")
    return str(signer)


def _changed(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Name files that are not as the manifest says."""
    there = _files(folder) - {_MANIFEST, _SIGNATURE}
    yield from (f"{name} is not in the manifest" for name in sorted(there - set(manifest.files)))
    for name, digest in sorted(manifest.files.items()):
        if name not in there:
            yield f"{name} is missing"
        elif sha256((folder / name).read_bytes()) != digest:
            yield f"{name} was changed"


def _ranked_again(folder: Path, faults: list[str]) -> tuple[ContestBoard, int]:
    """Get the ranking from the traces, each signed by its worker."""
    content = (folder / _RESULTS).read_bytes()
    results = parse(Results, content, TextPlace(_RESULTS, None))
    signed = verifying.verify(folder / _DATASET)
    faults += [f"{each.file}:{each.line}: {each.reason}" for each in signed.faults]
    trace_set = TraceSet.from_path(folder / _DATASET)
    traces: dict[str, Trace] = {}
    for name in trace_set.definitions:
        for trace in trace_set.traces.get(name, []):
            if trace.evaluation is not None and trace.evaluation.provenance is not None:
                traces[trace.evaluation.provenance.trace_id] = trace
    own_names: defaultdict[str, set[str]] = defaultdict(set)
    for each in results.entries:
        own_names[each.team].add(each.solution)
    entries = []
    for each in results.entries:
        entered = trace_set.get_solution(each.solution)
        code = None if entered is None else entered.hash()
        entries.append(_entry(each, traces, own_names[each.team], code, faults))
    names = [each.definition for each in results.board.definitions]
    found = ranking.board(entries, results.rules, names, is_final=True)
    if found.to_json() != results.board.to_json():
        faults.append(f"the ranking in {_RESULTS} does not follow from the traces")
    return found, signed.traces


def _entry(  # all that an entry is compared with
    record: EntryRecord,
    traces: dict[str, Trace],
    own_names: set[str],
    code: str | None,
    faults: list[str],
) -> ranking.RankedEntry:
    """Look at an entry; a team may enter code again under another name, and what is known of it answers then."""
    met = set() if code is None else {code}

    def evaluated(ids: list[str]) -> ranking.Evaluated:
        found = [traces[each] for each in ids if each in traces]
        met.update(map(_solution_hash, found))
        if len(found) < len(ids) or len(met) > 1 or any(t.solution not in own_names for t in found):
            faults.append(f"the traces of the entry {record.entry} are not those of {_RESULTS}")
        return ranking.evaluated(found, record.results)

    return ranking.RankedEntry(
        entry=record.entry,
        team=record.team,
        definition=record.definition,
        solution=record.solution,
        first=evaluated(record.traces),
        again=tuple(evaluated(each) for each in record.again),
        review=record.review,
    )


def _solution_hash(trace: Trace) -> str:
    assert trace.evaluation is not None
    assert trace.evaluation.provenance is not None
    return trace.evaluation.provenance.solution_hash


def _files(folder: Path) -> set[str]:
    """Name all that lies in a folder, and is no folder itself."""
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_symlink() or not path.is_dir()
    }
