#!/usr/bin/env python3
"""The stand-in for the driver notices what it promises to notice (driver/stand_in.h): small programs that do one thing wrong, and
the same without it.

    STEPC_CUDA_DRIVER=build/cuda/libcuda.so.1 tests/cuda/stand_in.py
"""
import os
import subprocess
import sys
import unittest

HEAD = r"""
import ctypes, os
d = ctypes.CDLL(os.environ["STEPC_CUDA_DRIVER"])
p, n = ctypes.c_void_p, ctypes.c_size_t
def call(name, *arguments):
    status = getattr(d, name)(*arguments)
    if status: print(name, "failed with", status)
    return status
def make(name, *arguments):
    out = p()
    call(name, ctypes.byref(out), *arguments)
    return out
TEXT = b'''
struct alignas(16) four { float item[4]; };
template <unsigned words> struct stepc_table { unsigned long long word[words]; };
extern "C" __global__ void __launch_bounds__(64) fill(float *to, long long lo, long long hi)
{ for (long long i = lo + blockIdx.x * 64 + threadIdx.x; i < hi; i += 64 * gridDim.x) to[i] = (float)i; }
extern "C" __global__ void __launch_bounds__(64) race(float *to, long long lo, long long hi)
{ if (threadIdx.x == 0) to[0] = (float)blockIdx.x; }
extern "C" __global__ void __launch_bounds__(64) shift(float *to, long long lo, long long hi)
{ __shared__ float row[64]; row[threadIdx.x] = (float)threadIdx.x; if (hi) __syncthreads(); to[threadIdx.x] = row[(threadIdx.x + 1) % 64]; }
extern "C" __global__ void __launch_bounds__(64) apart(float *to, long long lo, long long hi)
{ if (threadIdx.x < 32) __syncthreads(); }
extern "C" __global__ void __launch_bounds__(64) wide(float *to, long long lo, long long hi)
{ if (threadIdx.x == 0) *stepc_place<four>(to + lo) = four{}; }
extern "C" __global__ void __launch_bounds__(64) unset(float *to, long long lo, long long hi)
{ __shared__ float row[64]; if (threadIdx.x < hi) row[threadIdx.x] = 0; __syncthreads(); to[threadIdx.x] = row[threadIdx.x]; }
extern "C" __global__ void __launch_bounds__(64) long_table(const __grid_constant__ stepc_table<511> table, long long lo, long long hi)
{ }
'''
d.cuInit(0)
context = make("cuDevicePrimaryCtxRetain", 0)
call("cuCtxPushCurrent_v2", context)
stream = make("cuStreamCreate", 1)
module = make("cuModuleLoadDataEx", TEXT, 0, None, None)
block = make("cuMemAlloc_v2", n(256))
def launch(name, to=block, blocks=2, lo=0, hi=64, threads=64):
    words = [ctypes.c_uint64(to.value), ctypes.c_int64(lo), ctypes.c_int64(hi)]
    array = (p * 3)(*(ctypes.cast(ctypes.byref(w), p) for w in words))
    return call("cuLaunchKernel", make("cuModuleGetFunction", module, name.encode()), blocks, 1, 1, threads, 1, 1, 0, stream, array, None)
def wait(): return call("cuStreamSynchronize", stream)
host = make("cuMemHostAlloc", n(256), 0)
floats = ctypes.cast(host, ctypes.POINTER(ctypes.c_float))
def end():
    call("cuMemFreeHost", host); call("cuMemFree_v2", block); call("cuModuleUnload", module); call("cuStreamDestroy_v2", stream)
    call("cuDevicePrimaryCtxRelease_v2", 0)
"""


class StandIn(unittest.TestCase):
    def run_text(self, text, code, *wanted, **env):
        done = subprocess.run([sys.executable, "-c", HEAD + text], capture_output=True, text=True, timeout=600, env={**os.environ, **env})
        said = done.stdout + done.stderr
        self.assertEqual(done.returncode, code, said)
        for want in wanted:
            self.assertIn(want, said)

    def good(self, text, *wanted, **env):
        self.run_text(text + "\nend()\n", 0, *wanted, **env)

    def bad(self, text, *wanted, **env):
        self.run_text(text, 86, *wanted, **env)

    def test_nothing_is_wrong(self):
        self.good("launch('fill'); call('cuMemcpyDtoHAsync_v2', host, block, n(256), stream); wait(); print(floats[0], floats[63])", "0.0 63.0")
        self.good("launch('shift', blocks=1); wait()")

    def test_outside_of_a_block(self):
        self.bad("launch('fill', hi=65); wait()", "fill: it touches", "cuStreamSynchronize failed with 700")
        self.bad("launch('fill', lo=-4000, hi=0); wait()", "fill: it touches")
        self.bad("call('cuMemsetD8Async', block, 0, n(257), stream); wait()", "memset: 257 bytes")
        self.bad("launch('fill', to=p(block.value + 512)); wait()", "fill: parameter 0 is no address of a block")

    def test_failures_stay(self):
        self.bad("launch('fill', hi=65); wait(); print(launch('fill'))", "cuLaunchKernel failed with 700")

    def test_races(self):
        self.bad("launch('race'); wait()", "race: what it leaves depends on the order of its threads")
        self.good("launch('race', blocks=1); wait()")
        self.bad("launch('shift', blocks=1, hi=0); wait()", "shift: what it leaves depends on the order")

    def test_accesses_begin_at_a_multiple_of_their_bytes(self):
        self.good("launch('wide', blocks=1, lo=4); wait()")
        self.bad("launch('wide', blocks=1, lo=3); wait()", "an access that does not begin at a multiple of its bytes", "wide: it does what a GPU leaves undefined")

    def test_what_is_undefined(self):
        bad = "launch('fill', to=p(block.value + 2), hi=60); wait()"
        self.good(bad)
        self.bad(bad, "fill: it does what C++ leaves undefined: an address that is no multiple", "cuStreamSynchronize failed with 719", STAND_IN_UNDEFINED="1")
        self.good("launch('fill'); wait()", STAND_IN_UNDEFINED="1")

    def test_shared_memory_holds_nothing(self):
        read = "; call('cuMemcpyDtoHAsync_v2', host, block, n(256), stream); wait(); print(floats[62], floats[63])"
        self.good("launch('unset', blocks=1)" + read, "0.0 0.0")
        self.good("launch('unset', blocks=1)" + read + "; launch('unset', blocks=1, hi=63)" + read, "0.0 nan")

    def test_parameters(self):
        self.bad("launch('long_table')", "long_table: more than 4096 bytes of parameters", "cuLaunchKernel failed with 1")

    def test_threads(self):
        """A block has no more than its kernel was compiled for (__launch_bounds__), a grid a block or more."""
        self.bad("launch('fill', threads=65)", "fill: a grid that there is not", "cuLaunchKernel failed with 1")
        self.bad("launch('fill', blocks=0)", "fill: a grid that there is not", "cuLaunchKernel failed with 1")

    def test_dynamic_shared_memory(self):
        for card, most in ("7.5", 64), ("8.0", 163), ("8.6", 99), ("9.0", 227):
            set_it = "call('cuFuncSetAttribute', make('cuModuleGetFunction', module, b'fill'), 8, %d)"
            self.good(set_it % (most << 10), STAND_IN_CAPABILITY=card)
            self.good("print(%s)" % set_it % ((most << 10) + 1), "cuFuncSetAttribute failed with 1", STAND_IN_CAPABILITY=card)

    def test_barriers(self):
        self.bad("launch('apart', blocks=1); wait()", "apart: threads of a block disagree about a barrier", "failed with 719")

    def test_nothing_happens_before_somebody_waits(self):
        self.good("launch('fill'); call('cuMemcpyDtoHAsync_v2', host, block, n(256), stream); print(floats[1] == 1); wait(); print(floats[1])",
                  "False\n1.0")
        self.good("call('cuMemcpyAsync', block, p(block.value + 128), n(128), stream); wait()")
        self.bad("call('cuMemcpyAsync', block, p(block.value + 64), n(128), stream); wait()", "copy between devices: 128 bytes", "which overlap")
        self.bad("floats[0] = 1; call('cuMemcpyHtoDAsync_v2', block, host, n(256), stream); floats[0] = 2; wait()",
                 "its source at", "changed before the copy had ended")

    def test_graphs(self):
        captured = ("call('cuStreamBeginCapture_v2', stream, 1); launch('fill'); graph = p()\n"
                    "call('cuStreamEndCapture', stream, ctypes.byref(graph)); run = make('cuGraphInstantiateWithFlags', graph, ctypes.c_ulonglong(0))\n")
        tidy = "call('cuGraphExecDestroy', run); call('cuGraphDestroy', graph)\n"
        self.good(captured + "call('cuGraphLaunch', run, stream); wait()\n" + tidy)
        self.bad(captured + "call('cuMemFree_v2', block); call('cuGraphLaunch', run, stream); wait()\n", "fill: parameter 0 is no address of a block")
        self.bad("call('cuStreamBeginCapture_v2', stream, 1); wait()", "cuStreamSynchronize: not while a stream is captured")
        self.bad("call('cuStreamBeginCapture_v2', stream, 1); call('cuMemsetD8Async', block, 0, n(256), stream)", "cuMemsetD8Async: while the stream is captured")
        self.bad("call('cuStreamBeginCapture_v2', stream, 1); make('cuMemAlloc_v2', n(64))", "cuMemAlloc: not while a stream is captured")
        begin = "call('cuStreamBeginCapture_v2', stream, %d); launch('fill'); graph = p()\n"
        ended = "call('cuStreamEndCapture', stream, ctypes.byref(graph)); print(graph)\n"
        for name, arguments in ("cuMemFree_v2", "block"), ("cuMemFreeHost", "host"), ("cuModuleUnload", "module"), ("cuEventSynchronize", "event"), ("cuStreamQuery", "other"), ("cuStreamSynchronize", "other"):
            self.bad("event = make('cuEventCreate', 2); other = make('cuStreamCreate', 1)\n" + begin % 1 + "call('%s', %s)\n" % (name, arguments) + ended, name.split("_")[0] + ": not while a stream is captured",
                     name + " failed with 900", "cuStreamEndCapture failed with 901", "c_void_p(None)")
        thread = "import threading\ndef work(): call('cuCtxPushCurrent_v2', context); %s\nt = threading.Thread(target=work); t.start(); t.join()\n"
        alloc = thread % "call('cuMemFree_v2', make('cuMemAlloc_v2', n(64)))"
        self.good(begin % 1 + alloc + ended + "call('cuGraphDestroy', graph)")  # what another thread does is its own
        self.bad(begin % 0 + alloc + ended, "cuMemAlloc: not while a stream is captured", "cuStreamEndCapture failed with 901")
        self.bad(begin % 1 + thread % ended.split("; print")[0], "by another thread than the one that began", "failed with 908")

    def test_what_is_left(self):
        self.bad("call('cuMemFreeHost', host); call('cuDevicePrimaryCtxRelease_v2', 0)", "a block of memory was left (256 bytes)", "a stream was left")
        self.bad("", "the context of device 0 was not released")

    def test_contexts_and_threads(self):
        self.bad("other = make('cuDevicePrimaryCtxRetain', 1); call('cuCtxPushCurrent_v2', other); launch('fill')",
                 "no function of a module of device 1", STAND_IN_DEVICES="2")
        self.bad("import threading; t = threading.Thread(target=wait); t.start(); t.join()", "cuStreamSynchronize: no context is current")
        self.bad("call('cuStreamDestroy_v2', stream); wait()", "a stream that was destroyed")

    def test_addresses_are_not_the_hosts(self):
        self.run_text("print(ctypes.cast(block, ctypes.POINTER(ctypes.c_float))[0])", -11)


if __name__ == "__main__":
    unittest.main()
