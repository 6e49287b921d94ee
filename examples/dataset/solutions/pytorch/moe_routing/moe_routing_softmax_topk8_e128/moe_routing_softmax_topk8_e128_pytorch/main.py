import torch

TOP_K = 8
BITS = 0x7FFFFFFF


def run(routing_logits, topk_weights, topk_indices):
    num_experts = routing_logits.shape[-1]
    # The bits of a float order like an integer once those of negative numbers are turned round. Adding zero makes
    # -0 the same as 0, and a NaN goes before everything, whatever its sign.
    bits = (routing_logits + 0.0).view(torch.int32)
    order = torch.where(bits < 0, bits ^ BITS, bits).masked_fill_(routing_logits.isnan(), BITS)
    place = torch.arange(num_experts - 1, -1, -1, device=routing_logits.device)
    keys = order.to(torch.int64).mul_(num_experts).add_(place)
    chosen = torch.topk(keys, TOP_K, dim=-1).values.remainder_(num_experts).neg_()
    chosen += num_experts - 1
    torch.softmax(routing_logits.gather(-1, chosen), dim=-1, out=topk_weights)
    topk_indices.copy_(chosen)
