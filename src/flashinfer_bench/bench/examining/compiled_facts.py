"""What compilers say of a build: what ptxas reserves for each kernel, and which loops the C++ compiler vectorised."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from flashinfer_bench.bench.examining.profile_values import CompilerRemark, ProfiledKernel
from flashinfer_bench.bench.examining.tool_answers import short_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from flashinfer_bench.compile.instructions import InstructionCounts

NVCC_FLAGS = ("-Xptxas=-v",)
PTX_FLAGS = (*NVCC_FLAGS, "-keep")
"""PTX stays beside the binary."""
GCC_FLAGS = ("-fopt-info-vec-optimized", "-fopt-info-vec-missed")
CLANG_FLAGS = ("-Rpass=loop-vectorize|slp-vectorize", "-Rpass-missed=loop-vectorize")

_ENTRY = re.compile(r"ptxas info\s*: Compiling entry function '(.+)' for '(\w+)'")
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"ptxas info\s*: Used (\d+) registers")
_SHARED = re.compile(r"(\d+)(?:\+\d+)? bytes smem")
_FUNCTION = re.compile(r"^\s*Function (.+):$")
_RESOURCES = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)")
_GCC = re.compile(r"^(?:\./)?([^:\s]+):(\d+):\d+: (optimized|missed): +(.+)$")
_CLANG = re.compile(r"^(?:\./)?([^:\s]+):(\d+):\d+: remark: (.+?) \[-Rpass(-missed)?=[\w|-]+\]$")
_NO_LOOP = "couldn't vectorize loop"
_REASON = "not vectorized: "


def kernels_of_ptxas(log: str) -> tuple[ProfiledKernel, ...]:
    """Read `ptxas -v`: registers, spilled bytes (stores and loads), stack and static shared memory of each kernel."""
    found: dict[str, ProfiledKernel] = {}
    name = ""
    for line in log.splitlines():
        if entry := _ENTRY.search(line):
            name = short_name(entry.group(1))
            found[name] = ProfiledKernel(name=name, tool="ptxas")
        elif not name:
            continue
        elif spills := _SPILLS.search(line):
            stack, stores, loads = map(int, spills.groups())
            found[name] = msgspec.structs.replace(
                found[name], stack_bytes=stack, spill_bytes=stores + loads
            )
        elif used := _USED.search(line):
            shared = _SHARED.search(line)
            found[name] = msgspec.structs.replace(
                found[name],
                registers=int(used.group(1)),
                shared_memory_bytes=int(shared.group(1)) if shared else 0,
            )
            name = ""
    return tuple(found.values())


def kernels_of_resources(text: str) -> tuple[ProfiledKernel, ...]:
    """Read `cuobjdump -res-usage`, which does not tell spills from other uses of the stack."""
    found: dict[str, ProfiledKernel] = {}
    name = ""
    for line in text.splitlines():
        if function := _FUNCTION.match(line):
            name = short_name(function.group(1))
        elif name and (numbers := _RESOURCES.search(line)):
            registers, stack, shared, _ = map(int, numbers.groups())
            found[name] = ProfiledKernel(
                name=name,
                registers=registers,
                stack_bytes=stack,
                shared_memory_bytes=shared,
                tool="ptxas",
            )
            name = ""
    return tuple(found.values())


def with_instructions(
    kernels: Iterable[ProfiledKernel], counts: Mapping[str, InstructionCounts]
) -> tuple[ProfiledKernel, ...]:
    """Add to each kernel what was counted in its code."""
    by_name = {short_name(name): each for name, each in counts.items()}
    return tuple(
        msgspec.structs.replace(each, instructions=by_name.get(each.name)) for each in kernels
    )


def remarks_of(log: str, sources: Iterable[str]) -> tuple[CompilerRemark, ...]:
    """Read what g++ or clang++ says of loops in these files; a loop that was not vectorised has the first reason."""
    ours, found = set(sources), dict[tuple[str, int, bool], CompilerRemark]()
    reasons: dict[tuple[str, int], str] = {}
    pending: CompilerRemark | None = None
    for line in log.splitlines():
        remark = _remark(line)
        if remark is None or remark.file not in ours:
            continue
        if not remark.is_vectorised and remark.text.startswith(_REASON):
            if pending is not None:
                reasons.setdefault((pending.file, pending.line), remark.text.removeprefix(_REASON))
            continue
        if not remark.is_vectorised and not _is_about_a_loop(remark.text):
            continue
        pending = None if remark.is_vectorised else remark
        found.setdefault((remark.file, remark.line, remark.is_vectorised), remark)
    done = {(each.file, each.line) for each in found.values() if each.is_vectorised}
    kept = (
        _with_reason(each, reasons)
        for each in found.values()
        if each.is_vectorised or (each.file, each.line) not in done
    )
    return tuple(sorted(kept, key=lambda each: (each.file, each.line)))


def _is_about_a_loop(text: str) -> bool:
    return _NO_LOOP in text or "loop not vectorized" in text


def _remark(line: str) -> CompilerRemark | None:
    if match := _GCC.match(line.strip()):
        file, number, kind, text = match.groups()
        return CompilerRemark(file, int(number), kind == "optimized", text.strip())
    if match := _CLANG.match(line.strip()):
        file, number, text, missed = match.groups()
        return CompilerRemark(file, int(number), missed is None, text)
    return None


def _with_reason(remark: CompilerRemark, reasons: dict[tuple[str, int], str]) -> CompilerRemark:
    reason = reasons.get((remark.file, remark.line))
    if remark.is_vectorised or reason is None:
        return remark
    return msgspec.structs.replace(remark, text=f"{remark.text}: {reason}")
