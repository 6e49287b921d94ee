# cause: wrong_sign
def run(A, B, bias):
    return A @ B.T - bias
