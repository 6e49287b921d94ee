"""Whether verdicts of this machine and image can be trusted: known kernels are judged, and must get known verdicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.errors import DeviceError
from flashinfer_bench.rl.known_kernels import DEFINITION, KNOWN_KERNELS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.rl.contract import KernelJudge
    from flashinfer_bench.rl.known_kernels import KnownKernel
    from flashinfer_bench.rl.verdicts import KernelVerdict


class SelfCheckError(DeviceError):
    """A known kernel got another verdict than it must: no verdict of this machine can be trusted."""


@dataclass(frozen=True, slots=True)
class CheckedKernel:
    """What became of one known kernel."""

    kernel: str
    expected: str
    found: str
    is_as_expected: bool
    is_skipped: bool = False
    """Whether there is no compiler for it here, so that nothing is known."""
    feedback: str = ""
    """What the judge said, where the verdict differs."""


def self_check(
    judging: KernelJudge, kernels: Sequence[KnownKernel] | None = None
) -> list[CheckedKernel]:
    """Judge the known kernels that are for this kind of device; `judging` has to hold `known_tasks()`."""
    known = KNOWN_KERNELS if kernels is None else kernels
    own = [each for each in known if each.device in {None, judging.device_kind()}]
    verdicts = judging.judge_all([each.source for each in own], DEFINITION)
    return [_checked(each, found) for each, found in zip(own, verdicts, strict=True)]


def require_expected(checked: Sequence[CheckedKernel]) -> None:
    """Raise `SelfCheckError` that names what differs; nothing where all is as expected."""
    differing = [each for each in checked if not each.is_as_expected]
    if differing:
        lines = [f"  {e.kernel}: expected {e.expected}; found {e.found}" for e in differing]
        raise SelfCheckError(
            f"the judge fails its self-check: {len(differing)} of {len(checked)} known kernels got another verdict\n"
            + "\n".join(lines)
            + "\nNo verdict of this machine can be trusted; `flashinfer-bench doctor` tells what it lacks."
        )


def _checked(kernel: KnownKernel, found: KernelVerdict) -> CheckedKernel:
    is_skipped = kernel.needs_toolchain and found.cause == "machine"
    is_right = found.no_verdict is None and kernel.is_expected(found)
    return CheckedKernel(
        kernel=kernel.name,
        expected=kernel.expected,
        found=_said(found),
        is_as_expected=is_skipped or is_right,
        is_skipped=is_skipped,
        feedback="" if is_right else found.feedback,
    )


def _said(found: KernelVerdict) -> str:
    if found.no_verdict is not None:
        return f"no verdict ({found.cause}): {found.no_verdict}"
    parts = [
        "built" if found.built else "not built",
        f"{found.right_share or 0:.0%} of {found.total} workloads right",
        *([f"violation {', '.join(found.violations)}"] if found.violations else []),
        *([f"stopped: {found.stopped}"] if found.stopped else []),
        f"reward {found.reward:.3f}",
    ]
    return ", ".join(parts)
