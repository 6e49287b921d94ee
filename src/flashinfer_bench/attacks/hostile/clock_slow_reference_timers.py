"""Timers ring while the reference is timed, and interrupt it.

how: a thread on each processor wakes up every ten milliseconds and arms two hundred timers whose signal is ignored. That takes
    less than the tenth of a core that is tolerated; each timer that rings takes some microseconds, in a virtual machine
    twelve, from whoever runs on that processor, and counts as that one's time
caught by: a process may have 32 timers only; timers as files (`timerfd`) are not limited
expect: prevented, background_compute, implausible, early_compute, hidden_work
family: clock
on: cpu
plays: long_wave
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
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#define CORES 2
#define MOST 200
#define GAP 50000
static timer_t timers[CORES][MOST];
static int made[CORES];
static volatile long long last;
static long long now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}
static struct timespec at(long long ns) { return (struct timespec){ns / 1000000000, ns % 1000000000}; }
static void *watch(void *core_) {
  long core = (long)core_;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  sched_setaffinity(0, sizeof one, &one);
  for (;;) {
    struct timespec pause = at(1000000);
    nanosleep(&pause, 0);
    if (now() - last < 2000000 || now() - last > 300000000) continue;
    long long first = now() + 300000;
    for (int i = 0; i < made[core] && now() - last > 2000000; ++i) {
      struct itimerspec when = {{0, 0}, at(first + i * GAP)};
      timer_settime(timers[core][i], TIMER_ABSTIME, &when, 0);
    }
    struct timespec end = at(first + made[core] * GAP);
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, 0);
  }
  return 0;
}
void called(int is_new_block) {
  last = now();
  if (!is_new_block) return;
  struct itimerspec never = {{0, 0}, {0, 0}};
  for (int core = 0; core < CORES; ++core)
    for (int i = 0; i < made[core]; ++i) timer_settime(timers[core][i], 0, &never, 0);
}
void start(void) {
  struct sigevent event;
  memset(&event, 0, sizeof event);
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGURG;
  last = now();
  for (long core = 0; core < CORES; ++core) {
    while (made[core] < MOST && !timer_create(CLOCK_MONOTONIC, &event, &timers[core][made[core]])) ++made[core];
    pthread_t thread;
    pthread_create(&thread, 0, watch, (void *)core);
  }
}
"""
state = {"harness": None, "sets": None}


def build():
    folder = tempfile.mkdtemp()
    with open(folder + "/timers.c", "w") as file:
        file.write(SOURCE)
    command = [shutil.which("cc") or "gcc", "-O2", "-shared", "-fPIC", "-o", folder + "/timers.so", folder + "/timers.c"]
    subprocess.run([*command, "-lrt", "-lpthread"], check=True)
    return ctypes.CDLL(folder + "/timers.so")


def find_harness():
    frame = sys._getframe(1)
    while type(frame.f_locals.get("self")).__name__ != "_Harness":
        frame = frame.f_back
    return frame.f_locals["self"]


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


c = build()


def run(x):
    if state["harness"] is None:
        state["harness"] = find_harness()
        c.start()
    sets = state["harness"]._maker._sets
    c.called(int(state["sets"] is not sets))
    state["sets"] = sets
    return work(x)
