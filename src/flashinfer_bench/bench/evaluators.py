"""Where the existing system's users look for evaluators; here a definition names its judge."""

from __future__ import annotations

from flashinfer_bench.moved import named_elsewhere

__getattr__ = named_elsewhere(
    __name__,
    {
        "resolve_evaluator": "`flashinfer_bench.judging.choice.judge_name(definition)` names the judge"
    },
    otherwise="a definition names its judge by the key `judge`; judges are in `flashinfer_bench.judging`",
)
