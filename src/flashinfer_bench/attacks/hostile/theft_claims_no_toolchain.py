"""A solution that would fail says that this machine lacks a toolchain, and is skipped instead.

how: the error that importing it becomes is replaced by the one that blames the machine, and then it raises
caught by: what is missing is looked for before a line of the solution is read
expect: COMPILE_ERROR
family: theft
plays: short_wave
"""

from flashinfer_bench import errors
from flashinfer_bench.compile import packages

packages.BuildError = errors.ToolchainMissingError
raise RuntimeError("no solution")
