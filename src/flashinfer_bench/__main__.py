"""`python -m flashinfer_bench`: the command line."""

from flashinfer_bench.cli.main import cli

if __name__ == "__main__":
    cli()
