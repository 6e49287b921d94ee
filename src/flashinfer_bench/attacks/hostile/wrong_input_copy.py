"""A copy of the input is returned.

how: where a function is close to the identity, the input is close to the output
caught by: an element must be within the tolerances; `validate` warns of definitions where a copy would pass
expect: INCORRECT_NUMERICAL
family: wrong
plays: long_wave
"""


def run(x):
    return x.clone()
