"""A module is compiled by `torch.compile`.

how: an `nn.Module` with a parameter of its own is compiled once and called under `torch.no_grad`
plays: long_wave
slow: yes
"""

import torch


class Wave(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.frequency = torch.nn.Parameter(torch.tensor(3.0))

    def forward(self, x):
        y = torch.tanh(x) + torch.sin(x)
        return torch.exp(-y * y) + torch.cos(self.frequency * x)


module = Wave()
compiled = torch.compile(module)


@torch.no_grad()
def run(x):
    module.to(x.device)
    return compiled(x)
