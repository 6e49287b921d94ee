# cause: transposed
def run(A, B, bias):
    return A @ B.reshape(200, 48) + bias
