"""A child process in a session of its own outlives the job, to slow down or watch the next one.

how: two forks and `setsid` cut all ties; the grandchild ignores what it can and waits
caught by: the fork server adopts orphans and kills them before the next job starts
expect: prevented
family: theft
plays: long_wave
"""

import os
import signal
import time

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def leave_a_child():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            try:
                os.execvp("sleep", ["flashinfer-bench-attack-child", "600"])
            except OSError:
                time.sleep(600)
        os._exit(0)


def run(x):
    if not hasattr(run, "tried"):
        run.tried = True
        try:
            leave_a_child()
        except OSError as error:
            print(f"no loot: {error}")
    return work(x)
