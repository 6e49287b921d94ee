"""The spin kernel is exchanged for one of which a single block spins, and the work runs beside it.

how: the handle of the kernel that the harness launches is changed, in place where it is an object; the new kernel's
    other blocks return at once. Most of the work is put onto another stream during the spin, and joined. The first
    calls keep the host for 0.75 ms, so that the spin becomes long enough
caught by: the handle is a number, which can only be replaced, and that is looked at
expect: tampered_harness
family: clock
on: cuda
plays: long_wave
"""

import ctypes
import sys
import time

import torch

USUAL_NS = 1_000_000
PTX = b"""
.version 6.4
.target sm_70
.address_size 64
.visible .entry roomy(.param .s32 cycles)
.maxntid 512, 1, 1
{
    .reg .pred  %p;
    .reg .u32   %block;
    .reg .s64   %wanted, %begin, %now;

    mov.u32       %block, %ctaid.x;
    setp.ne.u32   %p, %block, 0;
    @%p bra       DONE;
    ld.param.s32  %wanted, [cycles];
    mov.u64       %begin, %clock64;
LOOK:
    mov.u64       %now, %clock64;
    sub.s64       %now, %now, %begin;
    setp.ge.s64   %p, %now, %wanted;
    @%p bra       DONE;
    nanosleep.u32 100;
    bra           LOOK;
DONE:
    ret;
}
"""
state = {"harness": None}


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def open_up():
    frame = sys._getframe(1)
    while type(frame.f_locals.get("self")).__name__ != "_Harness":
        frame = frame.f_back
    state["harness"] = frame.f_locals["self"]
    state["stream"] = torch.cuda.Stream()
    library, module, kernel = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p()
    torch.cuda.synchronize()
    if library.cuModuleLoadData(ctypes.byref(module), PTX) == 0:
        if library.cuModuleGetFunction(ctypes.byref(kernel), module, b"roomy") == 0:
            spin = state["harness"]._clock._spin
            if isinstance(spin._kernel, int):
                spin._kernel = kernel.value
            else:
                spin._kernel.value = kernel.value


def run(x):
    began = time.perf_counter()
    if state["harness"] is None:
        open_up()
    spin, main = state["harness"]._clock._spin, torch.cuda.current_stream()
    if spin.duration_ns == USUAL_NS:  # warm-up: samples of one call, and a long spin from now on
        out = work(x)
        while len(state["harness"]._calls) == 1 and time.perf_counter() - began < 7.5e-4:
            pass
        return out
    most = x.numel() * 15 // 16
    with torch.cuda.stream(state["stream"]):
        out = torch.empty_like(x)
        out[:most] = work(x[:most])
    out.record_stream(main)
    main.wait_stream(state["stream"])
    out[most:] = work(x[most:])
    return out
