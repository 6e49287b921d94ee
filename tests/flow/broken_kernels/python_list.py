# expect: RUNTIME_ERROR 2 outputs, 1 declared. It returned (float, float). Return tensors only, in this order: y
def run(x, w):
    return [1.0, 2.0]
