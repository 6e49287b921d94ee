"""A message of another kind is answered: a raised error of the judge's own, or a passed job.

how: frames that only a judge may send are written to the candidate's channel
caught by: each channel knows the closed set of messages it takes
expect: RUNTIME_ERROR
family: theft
plays: long_wave
"""

import os
import struct

import msgspec


def run(x):
    body = msgspec.msgpack.encode({"type": "JobEnded", "id": 1, "outcome": {"type": "Passed"}})
    os.write(3, struct.pack("<I", len(body)) + body)
    return x + 1
