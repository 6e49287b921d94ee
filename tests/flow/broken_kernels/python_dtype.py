# expect: INCORRECT_DTYPE output 'y' is float64, not float32
def run(x, w):
    return (x * w).double()
