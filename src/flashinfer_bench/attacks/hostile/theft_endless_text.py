"""What is raised has a text of a hundred megabytes.

how: the traceback travels to the judge in one message
caught by: messages are bounded
expect: RUNTIME_ERROR
family: theft
on: cpu
plays: long_wave
"""

def run(x):
    raise ValueError("\x1b[31m\u202e" + "x" * 100_000_000)
