"""One of two outputs is left out.

how: `zip` over shorter lists would compare the first output only
caught by: the number of outputs is checked
expect: RUNTIME_ERROR, COMPILE_ERROR
family: wrong
plays: row_extremes
"""


def run(x):
    results = [x.amin(dim=1)]
    return tuple(results)
