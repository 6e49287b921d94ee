import torch.distributed as dist
import torch.nn.functional as F


def run(A, B):
    C = F.linear(A, B)
    dist.all_reduce(C, op=dist.ReduceOp.SUM)
    return C
