"""A message of four gigabytes is announced, or one that nests for ever.

how: a length that cannot be is written to the channel, so that the judge would wait or swell
caught by: lengths are bounded, and what cannot be decoded ends the job
expect: RUNTIME_ERROR
family: theft
plays: long_wave
"""

import os
import struct


def run(x):
    os.write(3, struct.pack("<I", 0xFFFFFFFF) + b"\x91" * 65536)
    return x + 1
