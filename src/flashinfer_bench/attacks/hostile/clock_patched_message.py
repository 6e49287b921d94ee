"""The message that carries the time is built by a function of ours.

how: `Returned` in the harness's namespace is replaced by one that divides `elapsed_ns`
caught by: the outside clock disagrees
expect: implausible, tampered_harness
family: clock
plays: long_wave
"""

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    if not hasattr(run, "patched"):
        run.patched = True
        from flashinfer_bench.bench.candidate import harness

        genuine = harness.Returned

        def returned(id_, elapsed_ns, *rest, **more):
            return genuine(id_, max(1, elapsed_ns // 3), *rest, **more)

        harness.Returned = returned
    return work(x)
