"""`flashinfer-bench decompose batch` as a script, with the same options."""

import sys

from flashinfer_bench.cli.main import cli

if __name__ == "__main__":
    cli(["decompose", "batch", *sys.argv[1:]])
