"""The judge is made to fail by a figure for which it has no length of batches, and the run ends without a verdict.

how: the wall clock claims that each sample took minus 10 µs, for which a tenth and a microsecond are nothing to divide by
caught by: figures are looked at before anything is reckoned with them
expect: implausible, tampered_harness, RUNTIME_ERROR
family: theft
plays: row_extremes
"""

state = {"calls": 0, "is_end": False}


def now():
    """Give the window an end 10 µs before its start."""
    state["is_end"] = not state["is_end"]
    return 10_000 if state["is_end"] else 0


def run(x):
    state["calls"] += 1
    if state["calls"] == 7:  # warm-up calls say how many calls a sample has
        from flashinfer_bench.bench.timing import wall

        wall._now_ns = now
        state["is_end"] = True
    return x.amin(dim=1), x.amax(dim=1)
