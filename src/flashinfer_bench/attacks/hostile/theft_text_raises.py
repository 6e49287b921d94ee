"""What is raised cannot be told: its text raises, exits and asks for itself.

how: `__str__` raises `SystemExit`, and the causes go in a circle of thousands
caught by: whatever a solution raises is its own failure
expect: RUNTIME_ERROR
family: theft
on: cpu
plays: long_wave
"""

class Odd(BaseException):
    def __str__(self):
        raise SystemExit(0)

    def __repr__(self):
        raise KeyboardInterrupt


def run(x):
    error = Odd()
    for _ in range(20_000):
        following = Odd()
        following.__cause__ = error
        error = following
    raise error
