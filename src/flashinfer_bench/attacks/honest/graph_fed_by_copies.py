"""A CUDA graph of its own is fed by copies.

how: the graph of a size reads a static input; each call copies into it, replays, and clones the output
on: cuda
plays: long_wave
"""

import torch

captured = {}


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    if x.shape not in captured:
        own = x.clone()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            work(own)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = work(own)
        captured[x.shape] = graph, own, out
    graph, own, out = captured[x.shape]
    own.copy_(x)
    graph.replay()
    return out.clone()
