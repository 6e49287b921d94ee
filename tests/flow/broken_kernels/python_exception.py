# expect: RUNTIME_ERROR ValueError: no such size: 300
# shows: File "python_exception.py", line 4, in check
def check(x):
    raise ValueError(f"no such size: {len(x)}")


def run(x, w):
    check(x)
    return x * w
