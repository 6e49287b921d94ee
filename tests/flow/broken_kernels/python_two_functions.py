# expect: USAGE several public functions, and none is called 'run': scale, scale_twice
def scale(x, w):
    return x * w


def scale_twice(x, w):
    return x * w * w
