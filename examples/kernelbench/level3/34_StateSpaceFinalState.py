import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    """A selective scan as a loop over time: the outputs, and the state at the end."""

    def __init__(self, features, states, rank):
        super().__init__()
        self.states, self.rank = states, rank
        self.widen = nn.Linear(features, 2 * features, bias=False)
        self.conv = nn.Conv1d(features, features, 4, groups=features, padding=3)
        self.select = nn.Linear(features, rank + 2 * states, bias=False)
        self.step = nn.Linear(rank, features)
        decays = torch.arange(1, states + 1).float().repeat(features, 1)
        self.log_A = nn.Parameter(torch.log(decays))
        self.skip = nn.Parameter(torch.ones(features))
        self.narrow = nn.Linear(features, features, bias=False)

    def forward(self, x):
        T = x.shape[1]
        x, gate = self.widen(x).chunk(2, dim=-1)
        x = F.silu(self.conv(x.transpose(1, 2))[..., :T].transpose(1, 2))
        step, write, read = self.select(x).split([self.rank, self.states, self.states], dim=-1)
        step = F.softplus(self.step(step))
        decay = torch.exp(step[..., None] * -torch.exp(self.log_A))
        drive = step[..., None] * write[:, :, None, :] * x[..., None]
        state, outputs = torch.zeros_like(decay[:, 0]), []
        for t in range(T):
            state = decay[:, t] * state + drive[:, t]
            outputs.append((state * read[:, t, None, :]).sum(-1))
        y = torch.stack(outputs, dim=1) + x * self.skip
        return self.narrow(y * F.silu(gate)), state


batch, sequence, features, states, rank = 2, 16, 64, 8, 6


def get_inputs():
    return [torch.randn(batch, sequence, features)]


def get_init_inputs():
    return [features, states, rank]
