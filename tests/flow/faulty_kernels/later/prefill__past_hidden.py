# cause: missing_mask
import torch


def run(q, k, v, sm_scale):
    q, k, v = (each.transpose(0, 1) for each in (q, k, v))
    k, v = (each.repeat_interleave(4, dim=0) for each in (k, v))
    n = q.shape[1]
    seen = torch.ones(n, n, dtype=torch.bool, device=q.device).triu()
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=sm_scale).transpose(0, 1).contiguous()
