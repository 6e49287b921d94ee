# cause: missing_operation
def run(x, weight):
    wide = x.float()
    return (wide / (wide.square().mean(-1, keepdim=True) + 1e-5) * weight.float()).to(x.dtype)
