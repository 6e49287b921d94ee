"""A forged answer is written to the inherited descriptor, then the process leaves with code 0.

how: descriptor 3 is the channel; a `Returned` message with a time of one nanosecond is written for every id that may
    be asked for, and `os._exit(0)` hides the rest
caught by: answers are believed for their id only, outputs are read from shared memory, and the process must live on
expect: RUNTIME_ERROR, INCORRECT_NUMERICAL
family: theft
plays: long_wave
"""

import os
import struct

import msgspec


def frame(id_):
    body = msgspec.msgpack.encode(
        {
            "type": "Returned", "id": id_, "elapsed_ns": 1, "count": 1, "fault": None,
            "shares_buffers": False, "is_strided": False,
        }
    )  # fmt: skip
    return struct.pack("<I", len(body)) + body


def run(x):
    for id_ in range(1, 200):
        os.write(3, frame(id_))
    os._exit(0)
