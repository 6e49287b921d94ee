# cause: missing_epsilon


def run(x, weight):
    wide = x.float()
    return (wide / wide.square().mean(-1, keepdim=True).sqrt() * weight.float()).to(x.dtype)
