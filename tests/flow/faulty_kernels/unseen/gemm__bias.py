# cause: wrong_broadcast
def run(A, B, bias):
    return A @ B.T + bias[: len(A), None]
