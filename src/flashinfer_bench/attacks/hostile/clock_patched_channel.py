"""The channel is patched to change messages on their way out.

how: `Channel.send` sees every answer of this process and replaces the time in it
caught by: the outside clock disagrees
expect: implausible, tampered_harness
family: clock
plays: long_wave
"""

import msgspec
import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    if not hasattr(run, "patched"):
        run.patched = True
        from flashinfer_bench.bench import channel

        genuine = channel.Channel.send

        def send(self, message, descriptors=()):
            if hasattr(message, "elapsed_ns"):
                message = msgspec.structs.replace(message, elapsed_ns=max(1, message.elapsed_ns // 3))
            return genuine(self, message, descriptors)

        channel.Channel.send = send
    return work(x)
