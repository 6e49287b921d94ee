# expect: RUNTIME_ERROR output 'y' is NoneType, not a tensor
def run(x, w):
    x * w
