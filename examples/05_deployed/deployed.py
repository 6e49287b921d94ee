"""Measure two kernels in a Llama and in a mixture of experts, predicted beside measured, and score them.

    python deployed.py [--real] [--compiled]

Every step is a command of `flashinfer-bench`, shown as it runs.
"""

import argparse
import os
import shlex
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
MODELS = ("llama", "mixtral")


def main():
    options = arguments()
    if options.real:
        os.environ["WIDTHS"] = "real"
    import dataset  # noqa: PLC0415  # it reads the widths

    rows, prompt = (8, 512) if options.real else (8, 32)
    folder = options.out / "dataset"
    dataset.write(folder, sorted({rows, rows * prompt}), is_compiled=options.compiled)
    command("run", "--local", folder, *shlex.split(options.run))
    sizes = ("--rows", rows, "--prompt", prompt, "--shares", "prefill=0.2,decode=0.8")
    for model in MODELS:
        how = (*sizes, *shlex.split(options.bench))
        result = options.out / f"{model}.json"
        said = command("bench-model", HERE / f"{model}.py", "--with", folder, *how, "--json")
        result.write_text(said)
    command("report", "score", *(options.out / f"{model}.json" for model in MODELS), shows=True)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--real", action="store_true", help="real widths, for a card")
    parser.add_argument(
        "--compiled", action="store_true", help="references as torch.compile makes them"
    )
    parser.add_argument("--run", default="", help="more options of `flashinfer-bench run`")
    parser.add_argument(
        "--bench", default="", help="more options of `flashinfer-bench bench-model`"
    )
    parser.add_argument("--out", type=Path, default=HERE / "out", help="folder that takes it all")
    return parser.parse_args()


def command(*words, shows=False):
    """Run a command of flashinfer-bench; gives its stdout where it is not shown."""
    line = ["flashinfer-bench", *map(str, words)]
    print(f"\n$ {shlex.join(line)}", flush=True)
    run = [sys.executable, "-m", "flashinfer_bench", *line[1:]]
    done = subprocess.run(run, stdout=None if shows else subprocess.PIPE, text=True, check=False)
    if done.returncode not in {0, 1} or (done.returncode and words[0] != "bench-model"):
        sys.exit(f"error: {line[1]} ended with exit code {done.returncode}")
    return done.stdout


if __name__ == "__main__":
    main()
