# expect: RUNTIME_ERROR output 'y' is None, not a tensor: return a torch.Tensor, float32
def run(x, w):
    x * w
