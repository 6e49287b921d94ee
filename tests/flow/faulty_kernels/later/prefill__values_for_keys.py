# cause: swapped_operands
import torch


def run(q, k, v, sm_scale):
    q, k, v = (each.transpose(0, 1) for each in (q, k, v))
    k, v = (each.repeat_interleave(4, dim=0) for each in (k, v))
    return torch.nn.functional.scaled_dot_product_attention(q, v, k, is_causal=True, scale=sm_scale).transpose(0, 1).contiguous()
