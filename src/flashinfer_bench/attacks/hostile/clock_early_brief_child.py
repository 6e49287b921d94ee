"""Outputs are computed between `prepared` and `go` by a child that is gone before anybody looks.

how: `IntegrityCheck.damage` is replaced by a function that finds nothing, and the clock's class by one that wakes a thread once inputs
    are there; the thread starts a child by `vfork`, which computes all outputs of the sample. Only the thread waits for it
caught by: a counter of the kernel that children inherit, which the parent opens and reads at each block's start and end
expect: hidden_work, early_compute, prevented
needs counters: yes
family: clock
on: cpu
plays: row_sum
"""

import ctypes
import shutil
import subprocess
import sys
import tempfile

import torch

SOURCE = """
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/futex.h>
#include <sys/syscall.h>
static volatile int wanted;
static volatile int done;
static int served;
static const float *volatile xs[64];
static float *volatile ys[64];
static volatile int count;
static long rows, width;
void work(const float *x, float *y) {
  for (long r = 0; r < rows; ++r, x += width) {
    float part[16] = {0}, sum = 0;
    for (long i = 0; i < width; i += 16)
      for (int k = 0; k < 16; ++k) part[k] += x[i + k];
    for (int k = 0; k < 16; ++k) sum += part[k];
    y[r] = sum;
  }
}
static void *help(void *nothing) {
  for (;;) {
    while (wanted == served) syscall(SYS_futex, &wanted, FUTEX_WAIT_PRIVATE, served, 0, 0, 0);
    int serving = wanted;
    pid_t child = vfork();
    if (child == 0) {
      for (int i = 0; i < count; ++i) work(xs[i], ys[i]);
      done = serving;
      _exit(0);
    }
    served = serving;
  }
  return 0;
}
void start(long r, long w) {
  rows = r; width = w;
  struct sigaction a;
  memset(&a, 0, sizeof a);
  a.sa_handler = SIG_IGN;
  a.sa_flags = SA_NOCLDWAIT;
  sigaction(SIGCHLD, &a, 0);
  pthread_t t;
  pthread_create(&t, 0, help, 0);
}
void put(int i, const float *x, float *y) { xs[i] = x; ys[i] = y; }
void launch(int n) {
  count = n;
  ++wanted;
  syscall(SYS_futex, &wanted, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}
void wait_for_child(void) { while (done != wanted) __asm__ volatile("pause"); }
"""
folder = tempfile.mkdtemp()
with open(folder + "/t.c", "w") as file:
    file.write(SOURCE)
compiler = shutil.which("cc") or "gcc"
flags = ["-O3", "-march=native", "-ffast-math", "-shared", "-fPIC"]
subprocess.run([compiler, *flags, "-o", folder + "/t.so", folder + "/t.c", "-lpthread"], check=True)
c = ctypes.CDLL(folder + "/t.so")
pointer = ctypes.c_void_p
c.put.argtypes = [ctypes.c_int, pointer, pointer]
c.work.argtypes = [pointer, pointer]
c.start.argtypes = [ctypes.c_long, ctypes.c_long]
state = {"h": None, "calls": 0}
ready = {}


def find_harness():
    frame = sys._getframe(1)
    while type(frame.f_locals.get("self")).__name__ != "_Harness":
        frame = frame.f_back
    return frame.f_locals["self"]


def ahead():
    c.wait_for_child()  # it writes to what is forgotten here
    ready.clear()
    sets = state["h"]._input_sets
    for i, (x, *_) in enumerate(sets):
        y = torch.empty(x.shape[0])
        c.put(i, x.data_ptr(), y.data_ptr())
        ready[x.data_ptr()] = y
    c.launch(len(sets))


def install(x):
    import flashinfer_bench.bench.candidate.integrity as integrity

    integrity.IntegrityCheck.damage = lambda self, **_: None
    c.start(x.shape[0], x.shape[1])
    clock = state["h"]._clock

    class Clock(type(clock)):
        def get_ready(self):
            super().get_ready()
            ahead()

    clock.__class__ = Clock


def run(x):
    state["calls"] += 1
    if state["h"] is None:
        state["h"] = find_harness()
        install(x)
    y = ready.pop(x.data_ptr(), None) if state["calls"] > 14 else None
    if y is None:
        y = torch.empty(x.shape[0])
        c.work(x.data_ptr(), y.data_ptr())
    else:
        c.wait_for_child()
    return y
