# expect: TIMEOUT the kernel did not return within 15 s (--timeout)
# shows: File "python_loop.py", line 5, in run
def run(x, w):
    while True:
        w = w + 0
