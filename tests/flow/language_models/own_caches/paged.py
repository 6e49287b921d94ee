"""A layer of attention whose cache is pages that a table of each sequence names."""

import torch
from torch import nn

WIDTH, HEADS, PAGE, PAGES, BATCH, PROMPT = 32, 4, 4, 5, 2, 11


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.RMSNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x, keys, values, table, start):
        batch, rows = x.shape[:2]
        q, k, v = (
            each.view(batch, rows, HEADS, -1) for each in self.qkv(self.norm(x)).chunk(3, -1)
        )
        places = start + torch.arange(rows, device=x.device)
        page, slot = table[:, places // PAGE], (places % PAGE).expand(batch, rows)
        keys[page, slot] = k
        values[page, slot] = v
        past_k, past_v = (each[table].flatten(1, 2).transpose(1, 2) for each in (keys, values))
        seen = torch.arange(past_k.shape[2], device=x.device) <= places[:, None]
        found = nn.functional.scaled_dot_product_attention(
            q.transpose(1, 2), past_k, past_v, attn_mask=seen
        )
        return x + self.out(found.transpose(1, 2).reshape(x.shape)), keys, values


def _inputs(rows, filled):
    table = torch.arange(BATCH * PAGES).flip(0).view(BATCH, PAGES)
    keys, values = (torch.randn(BATCH * PAGES, PAGE, HEADS, WIDTH // HEADS) for _ in range(2))
    return [torch.randn(BATCH, rows, WIDTH), keys, values, table, torch.tensor(filled)]


def get_inputs():
    return get_prefill_inputs()


def get_prefill_inputs():
    return _inputs(PROMPT, 0)


def get_decode_inputs():
    return _inputs(1, PROMPT)


def get_init_inputs():
    return []
