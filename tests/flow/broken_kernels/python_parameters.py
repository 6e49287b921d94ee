# expect: INCORRECT_NUMERICAL nothing was written into the outputs: the kernel is called with (x, w, y) and has to write into y; one that returns them takes (x, w)
def run(x, w, eps):
    return x * w
