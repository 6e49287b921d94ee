"""Instructions of GPU kernels by kind, counted in SASS as `cuobjdump -sass` prints it, or in PTX."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

Assembly = Literal["sass", "ptx"]
"""`sass`: what the GPU runs; `ptx`: what its assembler is given, before registers are allocated and spilled."""


class InstructionCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many instructions of each kind stand in a kernel's code; not how often they run."""

    assembly: Assembly
    total: int
    """Those of no kind below, too."""
    global_loads: int = 0
    global_stores: int = 0
    shared_loads: int = 0
    shared_stores: int = 0
    local_loads: int = 0
    """Of local memory: spilled registers, arrays that fit no registers."""
    local_stores: int = 0
    async_copies: int = 0
    """Between global and shared memory: cp.async and TMA."""
    atomics: int = 0
    mma: int = 0
    """Of tensor cores."""
    fma: int = 0
    """Floating point, packed ones once."""
    conversions: int = 0
    """Between number formats."""
    barriers: int = 0
    branches: int = 0
    """Jumps and calls; the end of a kernel is none."""


_SASS_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("global_loads", re.compile(r"LDG?$")),
    ("global_stores", re.compile(r"STG?$")),
    ("shared_loads", re.compile(r"LDSM?$")),
    ("shared_stores", re.compile(r"STSM?$")),
    ("local_loads", re.compile(r"LDL$")),
    ("local_stores", re.compile(r"STL$")),
    ("async_copies", re.compile(r"LDGSTS$|UBLKCP$|UTMA(?:LDG|STG|REDG)$|UBLKRED$")),
    ("atomics", re.compile(r"ATOM[GS]?$|REDG?$")),
    ("mma", re.compile(r"\w*MMA$")),
    ("fma", re.compile(r"[FHD]FMA2?(?:32I)?$|[FH]FMA2$")),
    ("conversions", re.compile(r"U?[FI]2[FI]P?$")),
    ("barriers", re.compile(r"BAR$|SYNCS$|WARPSYNC$|UCGABAR_\w+$")),
    ("branches", re.compile(r"U?BRA$|BRXU?$|JMPU?$|JMXU?$|CALL$")),
)
_PTX_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "async_copies",
        re.compile(r"cp\.(?:reduce\.)?async\.(?:bulk\.)?(?!bulk|commit|wait|mbarrier|prefetch)"),
    ),
    ("shared_loads", re.compile(r"ld\.(?:\w+\.)*shared\b|ldmatrix\b")),
    ("shared_stores", re.compile(r"st\.(?:\w+\.)*shared\b|stmatrix\b")),
    ("local_loads", re.compile(r"ld\.(?:\w+\.)*local\b")),
    ("local_stores", re.compile(r"st\.(?:\w+\.)*local\b")),
    ("global_loads", re.compile(r"ldu?\.(?!(?:\w+\.)*(?:param|const)\b)")),
    ("global_stores", re.compile(r"st\.(?!(?:\w+\.)*(?:param|async|bulk)\b)")),
    ("atomics", re.compile(r"(?:atom|red)\.")),
    ("mma", re.compile(r"(?:mma|wmma\.mma|wgmma\.mma_async|tcgen05\.mma)\b")),
    ("fma", re.compile(r"fma\.")),
    ("conversions", re.compile(r"cvt\.")),
    ("barriers", re.compile(r"(?:bar|barrier|mbarrier)\.")),
    ("branches", re.compile(r"(?:bra|brx|call)\b")),
)
_FUNCTION = re.compile(r"^\s*Function : (\S+)$")
_SASS_LINE = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?([A-Z]\w*)([^;]*);")
_ENTRY = re.compile(r"\.entry\s+([\w$]+)")
_PTX_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_PTX_LINE = re.compile(r"^\s*(?:\.(?:loc|file|pragma)\b[^\n]*|[\w$]+:)", re.MULTILINE)
_PTX_INSTRUCTION = re.compile(r"^[\s{}]*(?:@!?%?[\w$]+\s+)?([a-z][\w.:]*)")


def counted_in_sass(text: str) -> dict[str, InstructionCounts]:
    """Count each function's instructions, by its mangled name; padding after a kernel's end is left out."""
    counts: dict[str, Counter[str]] = {}
    name = ""
    for line in text.splitlines():
        if function := _FUNCTION.match(line):
            name = function.group(1)
            counts[name] = Counter()
        elif name and (found := _SASS_LINE.match(line)):
            address, opcode, operands = found.groups()
            if opcode != "NOP" and not _is_padding(opcode, address, operands):
                counts[name].update(_kinds(opcode, _SASS_KINDS))
    return {name: _as_counts("sass", each) for name, each in counts.items()}


def _is_padding(opcode: str, address: str, operands: str) -> bool:
    """Tell whether it is the jump to itself behind the last instruction."""
    target = operands.split()[-1:]
    return opcode == "BRA" and target == [hex(int(address, 16))]


def counted_in_ptx(text: str) -> dict[str, InstructionCounts]:
    """Count each kernel's instructions, by its mangled name; functions that it calls are not in it."""
    text = _PTX_COMMENT.sub("", text)
    found = {}
    for entry in _ENTRY.finditer(text):
        counts: Counter[str] = Counter()
        for piece in _body(text, entry.end()).split(";"):
            instruction = _PTX_INSTRUCTION.match(_PTX_LINE.sub("", piece))
            if instruction is not None:
                counts.update(_kinds(instruction.group(1), _PTX_KINDS))
        found[entry.group(1)] = _as_counts("ptx", counts)
    return found


def _body(text: str, start: int) -> str:
    """Give what stands between the braces of a kernel."""
    begin = text.find("{", start)
    depth = 0
    for place in range(begin, len(text)) if begin >= 0 else ():
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0:
            return text[begin + 1 : place]
    return ""


def _kinds(opcode: str, kinds: tuple[tuple[str, re.Pattern[str]], ...]) -> Iterator[str]:
    yield "total"
    kind = next((name for name, pattern in kinds if pattern.match(opcode)), None)
    if kind is not None:
        yield kind


def _as_counts(assembly: Assembly, counts: Counter[str]) -> InstructionCounts:
    return InstructionCounts(assembly=assembly, **{"total": 0, **counts})
