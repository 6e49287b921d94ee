"""The harness is pushed aside: the solution answers the judge's requests itself.

how: the first call never returns; it reads requests from the channel, computes honest outputs into shared memory with
    the harness's own objects, and reports a tenth of the time
caught by: the outside clock: whoever answers, `go` to `returned` takes as long as the work
expect: implausible, RUNTIME_ERROR, tampered_harness
family: theft
plays: long_wave
"""

import sys

import msgspec
import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def take_over():
    frame = sys._getframe(1)
    harness = channel = None
    while frame is not None:
        for value in frame.f_locals.values():
            if type(value).__name__ == "Channel" and channel is None:
                channel = value
            if harness is None and hasattr(type(value), "go") and hasattr(type(value), "keep"):
                harness = value
        frame = frame.f_back
    from flashinfer_bench.bench.worker import contestant

    channel.send(harness.go(contestant_id(channel, harness)))
    while True:
        request = channel.receive()
        answer = contestant._answer(harness, request, channel)
        if hasattr(answer, "elapsed_ns"):
            answer = msgspec.structs.replace(answer, elapsed_ns=max(1, answer.elapsed_ns // 10))
        channel.send(answer)


def contestant_id(channel, harness):
    """Find the id of the `go` that is being answered in the frames above."""
    frame = sys._getframe(1)
    while frame is not None:
        request = frame.f_locals.get("request")
        if hasattr(request, "id"):
            return request.id
        frame = frame.f_back
    return 0


def run(x):
    if not hasattr(run, "taken"):
        run.taken = True
        take_over()
    return work(x)
