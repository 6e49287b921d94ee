# expect: USAGE several public functions, and none is called 'run': scaled, scale_twice
def scaled(x, w):
    return x * w


def scale_twice(x, w):
    return x * w * w
