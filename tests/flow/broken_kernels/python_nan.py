# expect: INCORRECT_NUMERICAL trial 0, call 0: output 'y': 300 of 300 elements differ, 300 of them in NaN or infinity
def run(x, w):
    return x * w / (w - w)
