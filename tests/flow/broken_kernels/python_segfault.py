# expect: RUNTIME_ERROR its process was ended by SIGSEGV
# shows: File "python_segfault.py", line 7 in run
import ctypes


def run(x, w):
    ctypes.string_at(0)
    return x * w
