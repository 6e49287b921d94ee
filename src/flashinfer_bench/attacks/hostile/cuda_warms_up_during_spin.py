"""Half of the work is done by copy engines and the host while the card is held, and inputs are read from a warm cache.

how: on streams that wait for nothing a copy engine copies the table, which leaves the copy in the L2 cache, and the
    host reduces the indices; the first calls keep the host for 0.7 ms, so that the card is held long enough. Nothing
    of the harness is touched
caught by: a part of the inputs is rewritten once calls are launched, and caches are swept then
expect: failed_audit, INCORRECT_NUMERICAL
family: clock
on: cuda
plays: gather
"""

import time

import numpy as np
import torch

state = {"calls": 0, "rows": None}


def open_buffers(index):
    state["rows"] = index.shape
    state["index_stream"], state["table_stream"] = torch.cuda.Stream(), torch.cuda.Stream()
    state["index"] = torch.empty(index.shape, dtype=index.dtype, pin_memory=True)
    state["reduced"] = torch.empty(index.shape, dtype=torch.int64, pin_memory=True)
    torch.cuda.synchronize()


def run(table, index):
    began = time.perf_counter()
    if state["rows"] != index.shape:
        open_buffers(index)
    main = torch.cuda.current_stream()
    first, second = state["index_stream"], state["table_stream"]
    with torch.cuda.stream(first):
        state["index"].copy_(index, non_blocking=True)
    with torch.cuda.stream(second):
        own = torch.empty_like(table)
        own.copy_(table, non_blocking=True)
    own.record_stream(main)
    first.synchronize()
    rows, reduced = table.shape[0], state["reduced"].numpy()
    if rows & (rows - 1):
        np.remainder(state["index"].numpy(), rows, out=reduced, casting="safe")
    else:
        np.bitwise_and(state["index"].numpy(), rows - 1, out=reduced, casting="safe")
    with torch.cuda.stream(first):
        picked = state["reduced"].to("cuda", non_blocking=True)
    picked.record_stream(main)
    main.wait_stream(first)
    main.wait_stream(second)
    out = torch.sin(own[picked])
    state["calls"] += 1
    if state["calls"] < 5:
        while time.perf_counter() - began < 7e-4:
            pass
    return out
