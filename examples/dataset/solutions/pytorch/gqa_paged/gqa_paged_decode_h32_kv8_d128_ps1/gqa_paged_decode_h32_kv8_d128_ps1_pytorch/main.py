import math

import torch


def run(q, k_cache, v_cache, kv_indptr, kv_indices, sm_scale, output, lse):
    batch_size, num_qo_heads, head_dim = q.shape
    num_kv_heads = k_cache.shape[2]
    group_size = num_qo_heads // num_kv_heads
    lengths = kv_indptr[1:] - kv_indptr[:-1]
    longest = int(lengths.max()) if batch_size else 0
    if longest == 0:
        output.zero_()
        lse.fill_(-math.inf)
        return
    steps = torch.arange(longest, device=q.device)
    is_padding = steps >= lengths[:, None]
    places = (kv_indptr[:-1, None] + steps).clamp_(max=len(kv_indices) - 1)
    pages = kv_indices[places].reshape(-1)

    def gathered(cache):
        # [batch_size * num_kv_heads, longest, head_dim]
        picked = cache.view(-1, num_kv_heads, head_dim).index_select(0, pages).float()
        shaped = picked.view(batch_size, longest, num_kv_heads, head_dim)
        return shaped.transpose(1, 2).reshape(-1, longest, head_dim)

    queries = q.float().mul_(sm_scale).view(-1, group_size, head_dim)
    scores = torch.bmm(queries, gathered(k_cache).transpose(1, 2))
    scores = scores.view(batch_size, num_qo_heads, longest)
    scores.masked_fill_(is_padding[:, None], -math.inf)
    natural = torch.logsumexp(scores, dim=-1)
    lse.copy_(natural / math.log(2))
    weights = scores.sub_(natural[..., None]).exp_().masked_fill_(is_padding[:, None], 0.0)
    mixed = torch.bmm(weights.view(-1, group_size, longest), gathered(v_cache))
    output.copy_(mixed.view(output.shape))
