#!/usr/bin/env python3
"""The stand-in's twin of copies that threads do not wait for (cp.async): what they bring is there as late as it may be, and a program that reads it before, or
writes over what others may still read, is told so.

    STEPC_CUDA_DRIVER=build/cuda/libcuda.so.1 tests/cuda/copies.py
"""
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE]
import stand_in

# 16 threads bring 64 words to a stage of a ring, five times; all warps add up what they read of it, as a product of panels does. The parts are those of
# codegen/lower/lower_dot_grid.c's by_panels.
RING = """
static void bring(unsigned *ring, const unsigned *from, int block)
{
    const unsigned thread = threadIdx.x - %(first)s;
    if (thread < 16) stepc_copy(ring + block %% %(stages)s * 64 + thread * 4, from + thread * 4, %(is)s);
}
extern "C" __global__ void __launch_bounds__(64) ring(unsigned *to, long long lo, long long hi)
{
    %(memory)s
    unsigned sum = 0, words[4];
    for (int i = 0; i < 2; i++) { bring(ring, to, i); stepc_copies_end(); }
    for (int i = 0; i < 5; i++) {
        %(wait)s
        %(barrier)s
        %(early)s
        if (%(ahead)s) bring(ring, to, i + 2);
        %(end)s
        stepc_load_tiles<false>(words, ring + i %% %(stages)s * 64 + threadIdx.x %% 16 * 4);
        sum += words[0] + words[1] + words[2] + words[3];
    }
    __syncthreads();
    to[threadIdx.x] = sum;
}
"""
GOOD = {"memory": "__shared__ __align__(1024) unsigned ring[192];", "stages": "3", "first": "0", "is": "true", "wait": "stepc_copies_wait<1>();", "barrier": "__syncthreads();", "early": "", "ahead": "i < 3", "end": "stepc_copies_end();"}
RUN = """
own = make("cuModuleLoadDataEx", %r.encode(), 0, None, None)
words = ctypes.cast(host, ctypes.POINTER(ctypes.c_uint))
call("cuMemsetD32Async", block, 1, n(64), stream)
values = [ctypes.c_uint64(block.value), ctypes.c_int64(0), ctypes.c_int64(64)]
array = (p * 3)(*(ctypes.cast(ctypes.byref(w), p) for w in values))
function = make("cuModuleGetFunction", own, b"ring")
%s
call("cuLaunchKernel", function, 1, 1, 1, 64, 1, 1, %d, stream, array, None)
wait()
call("cuMemcpyDtoHAsync_v2", host, block, n(256), stream)
wait()
print(set(words[:64]))
call("cuModuleUnload", own)
"""


def text_of(shared=0, before="", **parts):
    return RUN % (RING % {**GOOD, **parts}, before, shared)


DYNAMIC = {"memory": "unsigned *const ring = (unsigned *)stepc_dynamic;"}  # what the launch asks for


class Copies(unittest.TestCase):
    run_text, good, bad = stand_in.StandIn.run_text, stand_in.StandIn.good, stand_in.StandIn.bad

    def test_what_is_right(self):
        self.good(text_of(), "{20}")
        self.good(text_of(**{"is": "false"}), "{0}")
        self.good(text_of(stages="2", wait="stepc_copies_wait<0>();", ahead="false", early="if (i && i < 4) bring(ring, to, i + 1);", end="stepc_copies_end();"), "{20}")

    def test_what_a_launch_asks_for(self):
        allow = 'call("cuFuncSetAttribute", function, 8, %d)'
        self.good(text_of(shared=768, **DYNAMIC), "{20}")
        self.good(text_of(shared=64 << 10, before=allow % (64 << 10), **DYNAMIC), "{20}")
        self.bad(text_of(shared=512, **DYNAMIC), "kernel: more shared memory than the launch asks for")
        self.bad(text_of(shared=64 << 10, **DYNAMIC), "65536 bytes of shared memory, for which it was not asked")
        self.bad(text_of(shared=64 << 10, before=allow % (63 << 10), **DYNAMIC), "65536 bytes of shared memory, for which it was not asked")
        self.good(text_of(before=allow % (228 << 10)), "cuFuncSetAttribute failed with 1", "{20}")

    def test_what_is_wrong(self):
        for wrong, parts in (
                ("what a copy brings is read before it has arrived", {"wait": ""}), ("what a copy brings is read before it has arrived", {"wait": "stepc_copies_wait<2>();"}),
                ("what a copy brings is read before it has arrived", {"end": ""}), ("what a copy has brought is read without a barrier between", {"barrier": "__syncwarp();"}),
                ("what a copy brings is read before it has arrived", {"stages": "2"}), ("a copy to where another one is under way to", {"early": "if (i < 3) bring(ring, to, i + 2);"}),
                ("a copy to what another warp may still read", {"first": "32", "ahead": "false", "end": "stepc_load_tiles<false>(words, ring + i % 3 * 64 + threadIdx.x % 16 * 4); bring(ring, to, i);"}),
                ("a copy that nobody waits for", {"ahead": "i < 5"}), ("16 bytes of shared memory that do not begin at a multiple of 16", {"early": "bring(ring + 1, to, 2);"}),
                ("a copy from what does not begin at a multiple of 16 bytes", {"early": "if (i == 0) stepc_copy(ring, to + 1, false);"})):
            with self.subTest(wrong=wrong, parts=parts):
                self.bad(text_of(**parts), "kernel: " + wrong, "ring: it does what a GPU leaves undefined")


if __name__ == "__main__":
    unittest.main()
