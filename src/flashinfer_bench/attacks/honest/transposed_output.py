"""The output is a transposed view.

how: the transposed product is computed, and its transpose returned without copying: a note, not a violation
plays: matmul
"""


def run(a, b):
    return (b.T @ a.T).T
