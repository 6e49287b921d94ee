"""One tensor is returned for two outputs.

how: half of the work, and a view of it under the second name
caught by: outputs of one call may share no byte, and both are compared
expect: overlapping_output, INCORRECT_NUMERICAL
family: wrong
plays: row_extremes
"""


def run(x):
    low = x.amin(dim=1)
    return low, low
