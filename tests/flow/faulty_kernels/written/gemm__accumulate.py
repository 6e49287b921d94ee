# cause: never_written
def run(A, B, bias, C):
    for start in range(0, 200, 50):
        C += A[:, start : start + 50] @ B[:, start : start + 50].T
    C += bias
