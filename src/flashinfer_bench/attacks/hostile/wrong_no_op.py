"""Nothing is written to the output that was passed in.

how: a destination-passing entry point that returns at once
caught by: output buffers hold NaN before every call
expect: INCORRECT_NUMERICAL
family: wrong
style: into
plays: long_wave
"""


def run(x, y):
    pass
