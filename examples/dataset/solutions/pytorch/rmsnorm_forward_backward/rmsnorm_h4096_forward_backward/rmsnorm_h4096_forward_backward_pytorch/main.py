import torch

EPS = 1e-5


def run(hidden_states, weight, grad_output, output, grad_hidden_states, grad_weight):
    # With n = x / rms(x) and g = grad_output * weight, the gradient by x is (g - n * mean(g * n)) / rms(x).
    hidden_size = hidden_states.shape[-1]
    length = torch.linalg.vector_norm(hidden_states, dim=-1, keepdim=True, dtype=torch.float32)
    inverse_rms = length.square_().div_(hidden_size).add_(EPS).rsqrt_()
    normalised = torch.mul(hidden_states, inverse_rms)
    output.copy_(normalised * weight)
    product = torch.mul(grad_output, normalised)
    grad_weight.copy_(product.sum(dim=0))
    mean = product.mul_(weight).mean(dim=-1, keepdim=True)
    scaled = torch.mul(grad_output, weight.float())
    scaled.sub_(normalised.mul_(mean)).mul_(inverse_rms)
    grad_hidden_states.copy_(scaled)
