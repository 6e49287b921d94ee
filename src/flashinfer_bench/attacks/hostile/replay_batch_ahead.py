"""The first call of a sample of several computes all of them as one, more cheaply than one by one.

how: the buffers of a sample are learnt from earlier calls; whichever of them hold new content are stacked and
    computed together, and the calls that follow find their outputs ready
caught by: the inputs of a sample lie where no earlier call can know of
expect: failed_audit, prevented
family: replay
on: cpu
plays: short_wave
"""

import torch

buffers = {}
ready = {}


def run(x):
    key = x.data_ptr()
    done = ready.pop(key, None)
    if done is not None and done[0] == float(x[0]):
        return done[1]
    buffers[key] = x
    if len(buffers) > 64:
        buffers.clear()
    fresh = [each for each in buffers.values() if each.data_ptr() not in ready][:8]
    if len(fresh) < 2:
        return torch.sin(x) + x * x
    stacked = torch.stack(fresh)
    together = torch.sin(stacked) + stacked * stacked
    ready.clear()
    for each, row in zip(fresh, together, strict=True):
        ready[each.data_ptr()] = (float(each[0]), row)
    done = ready.pop(key, None)
    return torch.sin(x) + x * x if done is None else done[1]
