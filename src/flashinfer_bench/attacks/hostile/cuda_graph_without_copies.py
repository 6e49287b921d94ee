"""A graph captured on the first inputs is replayed on all others.

how: a captured graph reads the addresses it was captured with; nothing is copied there
caught by: buffers move between blocks, and a secret share of the timed calls is checked
expect: failed_audit, INCORRECT_NUMERICAL
family: replay
on: cuda
plays: long_wave
"""

import torch

captured = []


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    if not captured:
        own = x.clone()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            work(own)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = work(own)
        captured.extend((graph, own, out))
    graph, _, out = captured
    graph.replay()
    return out.clone()
