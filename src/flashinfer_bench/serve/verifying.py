"""Whether each trace line of a dataset was signed, by whom, and is as it was signed."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from flashinfer_bench.data.files import whole_lines
from flashinfer_bench.data.layout import SAMPLES, SIGNATURES, Layout, files_under
from flashinfer_bench.data.opening import LINES_BYTES, read_bytes
from flashinfer_bench.data.parsing import TextPlace, parse
from flashinfer_bench.errors import DatasetError, UsageError
from flashinfer_bench.serve.signing import SignedTrace, sha256

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

FaultKind = Literal["unsigned", "wrong", "unknown_key", "repeated", "gone"]
_KEY_DIGITS = 64


@dataclass(frozen=True, slots=True)
class SignatureFault:
    """A line that is not as a known worker signed it."""

    kind: FaultKind
    file: str
    line: int
    trace_id: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class SigningWorker:
    """A worker and its key, as signatures name them."""

    worker: str
    key: str
    traces: int
    """Lines that it signed, and that are as they were."""


@dataclass(frozen=True, slots=True)
class SignatureReport:
    """What became of each trace line."""

    traces: int
    verified: int
    workers: tuple[SigningWorker, ...]
    faults: tuple[SignatureFault, ...]


def read_keys(file: Path) -> dict[str, str | None]:
    """Read known keys: one a line, and after it the worker it is of, where that counts."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read --keys {file}: {getattr(error, 'strerror', None) or 'it is no text'}"
        ) from error
    keys: dict[str, str | None] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        key, _, worker = line.partition("#")[0].strip().partition(" ")
        if not key:
            continue
        if len(key) != _KEY_DIGITS or set(key) - set("0123456789abcdef"):
            raise UsageError(
                f"--keys {file}:{number}: {key[:80]!r} is no key: {_KEY_DIGITS} hexadecimal digits are one"
            )
        keys[key] = worker.strip() or None
    return keys


def verify(root: Path, keys: Mapping[str, str | None] | None = None) -> SignatureReport:
    """Check every trace line of a dataset; without `keys` any worker's signature counts."""
    layout = Layout(root)
    signed = _by_trace(layout, root)
    samples = _sample_digests(layout)
    known: Counter[tuple[str, str]] = Counter()
    faults: list[SignatureFault] = []
    met: set[str] = set()
    count = 0
    for file, number, line in _lines(layout, ".jsonl"):
        count += 1
        trace_id = _trace_id(line)
        entries = signed.get(trace_id, []) if trace_id is not None else []
        fault = _fault(line, [each for each, _, _ in entries], samples.get(trace_id or ""), keys)
        if isinstance(fault, SignedTrace) and trace_id in met:
            fault = "repeated", "this trace stands on a line before, too"
        met.add(trace_id or "")
        if isinstance(fault, SignedTrace):
            known[fault.worker, fault.key] += 1
        else:
            kind, reason = fault
            faults.append(SignatureFault(kind, _place(file, root), number, trace_id, reason))
    for trace_id, entries in signed.items():
        if trace_id not in met:
            _, file, number = entries[0]
            reason = "a worker signed this trace, and it is not here"
            faults.append(SignatureFault("gone", _place(file, root), number, trace_id, reason))
    workers = (SigningWorker(worker, key, n) for (worker, key), n in sorted(known.items()))
    return SignatureReport(count, sum(known.values()), tuple(workers), tuple(faults))


def _fault(
    line: bytes,
    entries: list[SignedTrace],
    sampled: set[str] | None,
    keys: Mapping[str, str | None] | None,
) -> SignedTrace | tuple[FaultKind, str]:
    """Find the signature that covers a line, or say why none does."""
    if not entries:
        return "unsigned", "it has no signature"
    covering = [each for each in entries if each.covers(line)]
    if not covering:
        return "wrong", "the line is not what its worker signed"
    for each in covering:
        if each.samples_sha256 is not None and each.samples_sha256 not in (sampled or ()):
            lacking = "are other ones than" if sampled else "are not here, which"
            return "wrong", f"its samples {lacking} its worker signed"
        if each.samples_sha256 is None and sampled:
            return "wrong", "it has samples, and its worker signed none"
        if sampled and sampled != {each.samples_sha256}:
            return "wrong", "it has other samples beside those that its worker signed"
    if keys is None:
        return covering[0]
    for each in covering:
        if each.key in keys and keys[each.key] in {None, each.worker}:
            return each
    worker, key = covering[0].worker, covering[0].key
    owner = keys.get(key)
    said = f"the key of {owner}" if owner else "a key that is not among those given"
    return "unknown_key", f"{worker} signed it with {said}: {key}"


def _by_trace(layout: Layout, root: Path) -> dict[str, list[tuple[SignedTrace, str, int]]]:
    found: defaultdict[str, list[tuple[SignedTrace, str, int]]] = defaultdict(list)
    for file, number, line in _lines(layout, SIGNATURES):
        try:
            entry = parse(SignedTrace, line, TextPlace(_place(file, root), number))
        except DatasetError:
            continue  # its trace is unsigned then, and named
        found[entry.trace_id].append((entry, file, number))
    return found


def _sample_digests(layout: Layout) -> dict[str, set[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for _, _, line in _lines(layout, SAMPLES):
        trace_id = _decoded(line).get("trace_id")
        if isinstance(trace_id, str):
            found[trace_id].add(sha256(line))
    return found


def _lines(layout: Layout, end: str) -> Iterator[tuple[str, int, bytes]]:
    for file in sorted(files_under(layout.traces, end)):
        for number, line in whole_lines(read_bytes(file, LINES_BYTES), file):
            yield file, number, line


def _trace_id(line: bytes) -> str | None:
    found: Any = _decoded(line)
    for key in ("evaluation", "provenance", "trace_id"):
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, str) else None


def _decoded(line: bytes) -> dict[str, Any]:
    """Read a line; nothing of one that cannot be read."""
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}


def _place(file: str, root: Path) -> str:
    return file.removeprefix(f"{root}/")
