# expect: RUNTIME_ERROR SystemExit: 3
# shows: File "python_exit.py", line 7, in run
import sys


def run(x, w):
    sys.exit(3)
