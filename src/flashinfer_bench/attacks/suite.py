"""The files of the suite, read: one entry per idea, from the table at the top of its source."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from flashinfer_bench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flashinfer_bench.data import Solution

FOLDER = Path(__file__).parent
VICTIMS = FOLDER / "victims"
FAMILIES = {
    "replay": "Replay: what was computed once is handed out again",
    "clock": "Clock: work leaves the timed window, or the clock is made to lie",
    "theft": "Channel and theft: answers are forged, secrets and other processes are reached for",
    "wrong": "Wrong work: less is computed than was asked for",
    "plays": "A second play: what one play of a job saw is used in the next",
    "twins": "Twins: one content under two names",
    "workloads": "Two workloads a process: what the first one left is used in the second",
    "rounds": "Rounds of `ab`: fresh processes, and notes between them",
    "allowances": "Allowances: as much is taken as the rules forgive",
    "honest": "Look-alikes: honest code that resembles an attack",
}
SCENARIOS = {
    "alone": "once, with one workload",
    "twins": "twice, with the same content under two names",
    "resubmitted": "twice to a benchmark that stays open",
    "same seed": "in two runs that were given the same seed",
    "two workloads": "with two workloads, in one process",
    "cold caches": "once, with `--cache cold`",
    "rounds": "in twelve rounds of `ab`, against its honest twin",
}
"""How a solution is submitted."""
PREVENTED = "prevented"
VISIBLE = "visible"
TOLD = "told"
NOT_STOPPED = "not_stopped"
PASSED = "PASSED"

_LANGUAGES = {".py": "python", ".cpp": "cpp", ".cu": "cuda"}
_COMPILED = frozenset({"cpp", "cuda"})
_COMMENT = re.compile(r"\A\s*/\*(.*?)\*/", re.DOTALL)
_KEY = re.compile(r"^([a-z][a-z ]*): *(.*)$")
_KEYS = frozenset(
    {
        "how", "caught by", "why not", "expect", "expect on cuda", "family", "on", "plays", "style",
        "language", "prepare", "plan", "slow", "needs", "needs sandbox", "needs counters", "scenario", "twin",
        "tries",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Entry:
    """One attack or look-alike: what it does, and how it has to end."""

    name: str
    title: str
    how: str
    caught_by: str
    expected: tuple[str, ...]
    """Any of these will do: a status in capitals, a violation code, `prevented`, `visible`, `told`, `not_stopped`."""
    expected_on_cuda: tuple[str, ...]
    family: str
    devices: tuple[str, ...]
    victim: str
    language: str
    source: str
    path: Path
    phases: Mapping[str, str]
    is_into: bool
    needs: tuple[str, ...]
    """Python packages without which it is skipped."""
    is_slow: bool
    needs_sandbox: bool
    """Whether only an isolation level above `limits` stops it."""
    needs_counters: bool
    """Whether only the kernel's counters stop it, which it does not give everywhere."""
    why_not: str
    """Why nothing stops it; empty where something does."""
    scenario: str
    """One of `SCENARIOS`."""
    honest_twin: str
    """The look-alike that does the same work without the trick; empty where it is the victim's reference."""
    tries: int
    """How often it is played; the worst ending counts."""

    @property
    def is_hostile(self) -> bool:
        """Whether it tries to win by other means than speed."""
        return self.family != "honest"

    def expected_on(self, device_kind: str) -> tuple[str, ...]:
        """Ways in which it may end on a kind of device."""
        on_cuda = device_kind == "cuda" and self.expected_on_cuda
        return self.expected_on_cuda if on_cuda else self.expected

    def solution(self) -> Solution:
        """Make the solution that mounts it."""
        from flashinfer_bench.data import BuildSpec, Solution, SourceFile  # noqa: PLC0415  # pydantic

        file = "kernel" + self.path.suffix
        return Solution(
            name=self.name,
            definition=self.victim,
            author="attacks",
            description=self.title,
            spec=BuildSpec.model_validate(
                {
                    "language": self.language,
                    "target_hardware": list(self.devices),
                    "entry_point": f"{file}::run",
                    "destination_passing_style": self.is_into,
                    "dependencies": list(self.needs),
                    **self.phases,
                }
            ),
            sources=[SourceFile(path=file, content=self.source)],
        )


def entries(
    *, only: Sequence[str] = (), families: Sequence[str] = (), with_slow: bool = True
) -> tuple[Entry, ...]:
    """Read the suite in the order of its families; raise `UsageError` for a pattern that names nothing."""
    files = sorted(
        path
        for folder in ("hostile", "honest")
        for path in (FOLDER / folder).iterdir()
        if path.suffix in _LANGUAGES
    )
    everything = [read_entry(path) for path in files]
    for pattern in only:
        if not any(fnmatchcase(entry.name, pattern) for entry in everything):
            raise UsageError(_unknown(pattern, everything))
    chosen = [
        entry
        for entry in everything
        if (not only or any(fnmatchcase(entry.name, pattern) for pattern in only))
        and (not families or entry.family in families)
        and (with_slow or not entry.is_slow)
    ]
    order = list(FAMILIES)
    return tuple(sorted(chosen, key=lambda entry: (order.index(entry.family), entry.name)))


def _unknown(pattern: str, known: Sequence[Entry]) -> str:
    """Name what is nearest to a pattern that fits nothing, or say what there is."""
    kinds = sorted({f"{entry.name.partition('_')[0]}_*" for entry in known if entry.is_hostile})
    near = get_close_matches(pattern, [*kinds, *(entry.name for entry in known)], n=3)
    if near:
        remedy = f"did you mean {' or '.join(map(repr, near))}?"
    else:
        remedy = f"attacks are {', '.join(kinds)}, and `--family honest` names all look-alikes as it runs them"
    return f"no attack or look-alike is called {pattern!r}; {remedy}"


def read_entry(path: Path) -> Entry:
    """Read one file; a `ValueError` says what its table lacks."""
    source = path.read_text(encoding="utf-8")
    title, table = _table(path, source)
    family = "honest" if path.parent.name == "honest" else table.get("family", "")
    if family not in FAMILIES:
        raise ValueError(f"{path.name}: family {family!r} is none of {', '.join(FAMILIES)}")
    scenario = table.get("scenario", "alone")
    if scenario not in SCENARIOS:
        raise ValueError(f"{path.name}: scenario {scenario!r} is none of {', '.join(SCENARIOS)}")
    language = table.get("language", _LANGUAGES[path.suffix])
    return Entry(
        name=path.stem,
        title=title,
        how=_required(table, "how", path),
        caught_by=table.get("caught by", ""),
        expected=_words(table.get("expect", PASSED)),
        expected_on_cuda=_words(table.get("expect on cuda", "")),
        family=family,
        devices=_words(table.get("on", "cpu cuda")),
        victim=_required(table, "plays", path),
        language=language,
        source=source,
        path=path,
        phases={phase: table[phase] for phase in ("prepare", "plan") if phase in table},
        is_into=table.get("style", "into" if language in _COMPILED else "returns") == "into",
        needs=_words(table.get("needs", "")),
        is_slow=table.get("slow") == "yes",
        needs_sandbox=table.get("needs sandbox") == "yes",
        needs_counters=table.get("needs counters") == "yes",
        why_not=table.get("why not", ""),
        scenario=scenario,
        honest_twin=table.get("twin", ""),
        tries=int(table.get("tries", "1")),
    )


def _table(path: Path, source: str) -> tuple[str, dict[str, str]]:
    if path.suffix == ".py":
        text = ast.get_docstring(ast.parse(source)) or ""
    else:
        found = _COMMENT.match(source)
        text = found.group(1) if found else ""
    title, *lines = [line.strip().lstrip("* ").rstrip() for line in text.strip().splitlines()]
    table: dict[str, str] = {}
    key = ""
    for line in lines:
        match = _KEY.match(line)
        if match and match.group(1) in _KEYS:
            key = match.group(1)
            table[key] = match.group(2)
        elif line and key:
            table[key] = f"{table[key]} {line}".strip()
        elif line:
            title = f"{title} {line}"
    return title, table


def _required(table: Mapping[str, str], key: str, path: Path) -> str:
    if not table.get(key):
        raise ValueError(f"{path.name}: its table lacks {key!r}")
    return table[key]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.replace(",", " ").split())
