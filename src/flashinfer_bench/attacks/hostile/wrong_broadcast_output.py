"""A smaller output is returned that would broadcast against the expected one.

how: a comparison that broadcasts would compare one element with all
caught by: shapes must be the declared ones
expect: INCORRECT_SHAPE
family: wrong
plays: long_wave
"""


def run(x):
    return x[:1] * 0
