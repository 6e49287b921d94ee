import math

import torch


def run(q, k_cache, v_cache, kv_indptr, kv_indices, sm_scale):
    batch_size, num_qo_heads, head_dim = q.shape
    num_kv_heads = k_cache.shape[2]
    output = torch.zeros_like(q)
    lse = torch.full((batch_size, num_qo_heads), -math.inf, device=q.device)
    bounds = kv_indptr.tolist()
    for i in range(batch_size):
        pages = kv_indices[bounds[i] : bounds[i + 1]]
        if len(pages) == 0:
            continue
        keys = k_cache[pages, 0].float().permute(1, 2, 0)
        values = v_cache[pages, 0].float().transpose(0, 1)
        scores = q[i].float().view(num_kv_heads, -1, head_dim) @ keys * sm_scale
        lse[i] = torch.logsumexp(scores, dim=-1).view(-1) / math.log(2)
        output[i] = (torch.softmax(scores, dim=-1) @ values).view(num_qo_heads, head_dim)
    return output, lse
