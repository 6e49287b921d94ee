"""A small decoder with a cache of its own, some of whose functions tests put others in the place of."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

VOCABULARY, WIDTH, HEADS, LAYERS = 256, 64, 4, 2
Scores = torch.Tensor
Attend = Callable[[Scores, torch.Tensor], torch.Tensor]


def plain(scores: Scores, values: torch.Tensor) -> torch.Tensor:
    """Weighted sum of values; scores that are masked are -inf."""
    shares = (scores.float() - scores.float().amax(-1, keepdim=True)).exp()
    return (shares / shares.sum(-1, keepdim=True)).to(values.dtype) @ values


class Tiny(nn.Module):
    """What `Served` asks for."""

    vocab_size = VOCABULARY

    def __init__(self, attend: Attend = plain, shift: int = 0) -> None:
        super().__init__()
        self.attend, self.shift = attend, shift
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.projections = nn.ModuleList(
            nn.Linear(WIDTH, 3 * WIDTH, bias=False) for _ in range(LAYERS)
        )
        self.outputs = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.caches: dict[tuple[int, int], torch.Tensor] = {}
        self.cache = torch.empty(0)

    def begin(self, rows: int, room: int) -> None:
        if (rows, room) not in self.caches:
            shape = (LAYERS, 2, rows, HEADS, room, WIDTH // HEADS)
            self.caches[rows, room] = torch.zeros(shape, dtype=self.head.weight.dtype)
        self.cache = self.caches[rows, room]

    def prefill(self, tokens: torch.Tensor) -> torch.Tensor:
        return self._step(tokens, torch.tensor(0))

    def decode(self, tokens: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        return self._step(tokens, position)

    def _step(self, tokens: torch.Tensor, first: torch.Tensor) -> torch.Tensor:
        places = first + torch.arange(tokens.shape[1])
        x = self.embedding(tokens)
        hidden = torch.arange(self.cache.shape[-2]) > places[:, None]
        for at, (projection, output) in enumerate(zip(self.projections, self.outputs, strict=True)):
            size = (*x.shape[:2], 3, HEADS, WIDTH // HEADS)
            q, k, v = projection(x).view(size).permute(2, 0, 3, 1, 4)
            self.cache[at, 0][:, :, places] = turned(k, places)
            self.cache[at, 1][:, :, places] = v
            keys, values = self.cache[at]
            scores = turned(q, places + self.shift) @ keys.transpose(-1, -2) * q.shape[-1] ** -0.5
            mixed = self.attend(scores.masked_fill(hidden, -torch.inf), values)
            x = x + output(mixed.transpose(1, 2).flatten(2))
        return self.head(x[:, -1])


def turned(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Rotary embedding."""
    half = x.shape[-1] // 2
    angles = places[:, None].double() / 100.0 ** (torch.arange(half) / half)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)


def drawn(seed: int, dtype: torch.dtype, **changes: object) -> Tiny:
    """A model with weights from a seed."""
    torch.manual_seed(seed)
    model = Tiny(**changes)  # type: ignore[arg-type]
    for each in model.parameters():
        nn.init.normal_(each, std=1.5 * each.shape[-1] ** -0.5)
    return model.to(dtype).eval().requires_grad_(False)
