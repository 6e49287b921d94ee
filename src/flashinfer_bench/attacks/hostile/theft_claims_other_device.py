"""A solution that would fail says that it was compiled for another device, and is skipped instead.

how: the harness's own message is sent from the solution, while it is built
caught by: what a solution of this language is built for is known before it is built
expect: COMPILE_ERROR
family: theft
plays: short_wave
"""

import sys

from flashinfer_bench.bench.protocol import BuiltElsewhere

frame = sys._getframe()
while "channel" not in frame.f_locals or "request" not in frame.f_locals:
    frame = frame.f_back
frame.f_locals["channel"].send(BuiltElsewhere(frame.f_locals["request"].id, "built for a card of mine"))


def run(x):
    return x
