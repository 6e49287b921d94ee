"""What a policy is told of its kernel: little enough for a prompt, and nothing of sealed workloads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashinfer_bench.data.wording import axes_text
from flashinfer_bench.judging.diagnosis import cause_lines, diagnosis_in
from flashinfer_bench.report.logs import log_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.data import Trace

MOST_BYTES = 4_000
"""2,000 tokens, at two bytes a token: tokenizers need more bytes of code and logs."""
_SEALED = "the workloads of the split test are sealed: no more is told"
_LEFT_OUT = "\n[cut here; `flashinfer-bench check` shows all of it]"


def feedback_of(
    split: str, traces: Sequence[Trace], violations: Sequence[str], stopped: str | None
) -> str:
    """Say how each workload ended, and show the first failure; for `test` only that it is sealed."""
    if split == "test":
        return _SEALED
    lines = [f"violation: {', '.join(violations)}"] if violations else []
    lines += [_ended(each) for each in traces]
    lines += [f"stopped: {stopped}"] if stopped else []
    failed = next((e for t in traces if (e := t.evaluation) and e.status != "PASSED"), None)
    if failed is not None:
        extra = failed.correctness.extra if failed.correctness else None
        lines += ["", *cause_lines(diagnosis_in(extra)), *log_lines(failed.log)]
    return shortened("\n".join(lines))


def shortened(text: str, most: int = MOST_BYTES) -> str:
    """Cut a text to so many bytes and say so; a character is not cut in two."""
    content = text.encode(errors="replace")
    if len(content) <= most:
        return content.decode()
    return content[: most - len(_LEFT_OUT)].decode(errors="ignore") + _LEFT_OUT


def _ended(trace: Trace) -> str:
    evaluation = trace.evaluation
    assert evaluation is not None
    measured, said = (
        evaluation.performance,
        f"{evaluation.status.value} {axes_text(trace.workload.axes)}",
    )
    if measured is not None and measured.speedup_factor is not None:
        said += f": {measured.speedup_factor:.3g}x the reference's speed"
        if measured.speedup_interval is not None:
            said += f", at least {measured.speedup_interval[0]:.3g}x"
        if measured.sol_fraction is not None:
            said += f", {measured.sol_fraction:.0%} of the roofline"
    return said
