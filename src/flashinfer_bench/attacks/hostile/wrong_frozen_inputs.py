"""The harness is kept from writing new inputs, so that yesterday's answer stays right.

how: `InputMaker.prepare` is replaced by one that fills the buffers once
caught by: the judge makes its own inputs, and compares fingerprints and outputs
expect: changed_inputs, failed_audit, INCORRECT_NUMERICAL
family: wrong
plays: long_wave
"""

import torch

kept = []


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def patch():
    from flashinfer_bench.tensors import generate

    genuine = generate.InputMaker.prepare
    made = {}

    def prepare(self, seed, count, **more):
        if count not in made:
            made[count] = genuine(self, seed, count, **more)
        return made[count]

    generate.InputMaker.prepare = prepare


def run(x):
    if not kept:
        patch()
        kept.append(work(x))
    return kept[0].clone()
