# cause: off_by_one
def run(A, B, bias):
    return A[:, 1:] @ B[:, 1:].T + bias
