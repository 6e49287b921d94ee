"""The program: builds the model, reads a prompt, generates tokens. It knows nothing of benchmarks."""

from __future__ import annotations

import argparse
import time

import torch
from model import Sizes, built, generate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=Sizes.layers)
    parser.add_argument("--prompt", type=int, default=128, help="tokens to read")
    parser.add_argument("--tokens", type=int, default=64, help="tokens to generate")
    options = parser.parse_args()
    torch.set_num_threads(1)  # one sequence: nothing is worth waking a second thread for
    model, prompt = built(Sizes(layers=options.layers), options.prompt)
    started = time.perf_counter()
    scores = generate(model, prompt, options.tokens)
    elapsed_s = time.perf_counter() - started
    print(f"{options.tokens} tokens in {elapsed_s:.3f} s: {scores.argmax(dim=-1)[:8].tolist()} …")


if __name__ == "__main__":
    main()
