"""One CUDA graph a shape is kept, with static buffers.

how: `make_graphed_callables` captures at the first call of each shape; the output is cloned
plays: long_wave
on: cuda
"""

import torch

graphs = {}


class Wave(torch.nn.Module):
    def forward(self, x):
        y = torch.tanh(x) + torch.sin(x)
        return torch.exp(-y * y) + torch.cos(3 * x)


@torch.no_grad()
def run(x):
    if x.shape not in graphs:
        graphs[x.shape] = torch.cuda.make_graphed_callables(Wave(), (x.clone(),))
    return graphs[x.shape](x).clone()
