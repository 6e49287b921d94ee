import torch
import torch.distributed as dist
import torch.nn.functional as F

EPS = 1e-5


def run(partial, residual, weight):
    ranks, rank = dist.get_world_size(), dist.get_rank()
    if partial.shape[0] % ranks:
        total = partial.float()
        dist.all_reduce(total)
        return normalised(total + residual.float(), weight)
    own = partial.new_empty((partial.shape[0] // ranks, partial.shape[1]), dtype=torch.float32)
    dist.reduce_scatter_tensor(own, partial.float())
    own += residual.chunk(ranks)[rank].float()
    gathered = []
    for part in normalised(own, weight):
        whole = torch.empty_like(partial)
        dist.all_gather_into_tensor(whole, part)
        gathered.append(whole)
    return tuple(gathered)


def normalised(total, weight):
    output = F.rms_norm(total, weight.shape, weight.float(), EPS)
    return output.to(weight.dtype), total.to(weight.dtype)
