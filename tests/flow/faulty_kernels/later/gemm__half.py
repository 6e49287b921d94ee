# cause: narrow_accumulation
def run(A, B, bias):
    return (A.half() @ B.half().T).float() + bias
