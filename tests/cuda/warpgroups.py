#!/usr/bin/env python3
"""Products by warpgroups (wgmma, sm_90a), as far as they show without a GPU: the stand-in's twin of the instructions beside a second reading of
PTX ISA 9.7.15, for each way in which a matrix may lie; what the twin finds wrong; and, where NVRTC and ptxas are, the machine code: products are
asynchronous, sums stay in registers, two blocks fit into a multiprocessor.

    STEPC_CUDA_DRIVER=build/cuda/libcuda.so.1 tests/cuda/warpgroups.py build/stepc
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..")]
from tool import runner

import products
import stand_in

# A warpgroup multiplies what memory has as it lies in shared memory, and gives its registers.
PRODUCT = """
static unsigned long long descriptor(const void *at, unsigned long long rest) /* fields behind one another */
{
    return stepc_shared_address(at) >> 4 | (rest & 0x3fff) << 16 | (rest >> 14 & 0x3fff) << 32 | rest >> 28 << 62;
}
extern "C" __global__ void __launch_bounds__(128) multiply(const unsigned short *x, const unsigned short *y, float *z, long long left, long long right)
{
    __shared__ __align__(1024) unsigned short a[16384], b[16384];
    for (int i = threadIdx.x; i < 16384; i += 128) a[i] = x[i], b[i] = y[i];
    %s
    __syncthreads();
    float d[SUMS];
    for (int i = 0; i < SUMS; i++) d[i] = 1;
    %s
    stepc_wgmma_%s<%d, %d>(d, descriptor(a, left), descriptor(b, right) %s);
    %s
    %s
    for (int i = 0; i < SUMS; i++) z[threadIdx.x * SUMS + i] = d[i];
}
"""
PARTS = {"memory": "stepc_async_fence();", "registers": "stepc_wgmma_fence();", "more": "", "commit": "stepc_wgmma_commit();", "wait": "stepc_wgmma_wait<SUMS, 0>(d);"}

# Layouts in units of 16 bytes, as the "Canonical layouts" of the PTX ISA (and, by the same letters, CUTLASS's mma_traits_sm90_gmma.hpp) have them.
RUN = """
import numpy as np
own = make("cuModuleLoadDataEx", %r.encode(), 0, None, None)
def bits(values, wide):
    return (values.astype("f4").view("u4") >> 16).astype("u2") if wide else values.astype("f2").view("u2")
def laid(matrix, turned, mode, leading, stride):
    out, width = np.zeros(16384, "u2"), (1, 8, 4, 2)[mode]
    for row in range(matrix.shape[0]):
        for step in range(16):
            fast, slow = (row, step) if turned else (step, row)
            if turned and mode == 0: at = fast // 8 * stride + slow %% 8 + slow // 8 * leading
            elif turned: at = fast // 8 %% width + fast // 8 // width * leading + slow %% 8 * width + slow // 8 * stride
            else: at = fast // 8 * (leading if mode == 0 else 1) + slow %% 8 * width + slow // 8 * stride
            at ^= at // 8 & width - 1
            out[at * 8 + fast %% 8] = matrix[row, step]
    return out
columns = %d
def multiply(turned, modes, strides, wide):
    r = np.random.default_rng(sum(modes) + 7 * sum(turned))
    x, y = r.integers(-8, 9, (64, 16)) / 8, r.integers(-8, 9, (columns, 16)) / 8
    words, blocks = [], []
    for matrix, t, mode, (leading, stride) in zip((x, y), turned, modes, strides):
        data = laid(bits(matrix, wide), t, mode, leading, stride)
        blocks.append(make("cuMemAlloc_v2", n(data.nbytes)))
        call("cuMemcpyHtoDAsync_v2", blocks[-1], data.ctypes.data_as(p), n(data.nbytes), stream)
        wait()
        words.append(ctypes.c_int64(leading | stride << 14 | mode << 28))
    z = np.zeros((128, columns // 2), "f4")
    blocks.append(make("cuMemAlloc_v2", n(z.nbytes)))
    words = [ctypes.c_uint64(b.value) for b in blocks] + words
    array = (p * 5)(*(ctypes.cast(ctypes.byref(w), p) for w in words))
    call("cuLaunchKernel", make("cuModuleGetFunction", own, b"multiply"), 1, 1, 1, 128, 1, 1, 0, stream, array, None)
    wait()
    call("cuMemcpyDtoHAsync_v2", z.ctypes.data_as(p), blocks[2], n(z.nbytes), stream)
    wait()
    for b in blocks: call("cuMemFree_v2", b)
    thread, i = np.arange(128)[:, None], np.arange(columns // 2)[None]
    row, column = thread // 32 * 16 + thread %% 32 // 4 + i // 2 %% 2 * 8, i // 4 * 8 + thread %% 4 * 2 + i %% 2
    return z, (x @ y.T + 1)[row, column]
"""


def text_of(dtype="bf16", turned=(0, 0), columns=128, **other):
    parts = {**PARTS, **other}
    product = PRODUCT % (parts["memory"], parts["registers"], "%s_%d" % (dtype, columns), *turned, parts["more"], parts["commit"], parts["wait"])
    return RUN % (product.replace("SUMS", str(columns // 2)), columns)


class Twin(unittest.TestCase):
    run_text, good, bad = stand_in.StandIn.run_text, stand_in.StandIn.good, stand_in.StandIn.bad

    def test_each_way(self):
        """By rows of 16, 128, 64 and 32 bytes; distances of 8 rows, 8 steps and what follows are such that nothing lies twice."""
        strides = {(0, 0): (320, 10), (0, 1): (640, 9), (1, 0): (1, 64), (1, 1): (128, 64), (2, 0): (1, 32), (2, 1): (64, 32), (3, 0): (1, 16), (3, 1): (32, 16)}
        for dtype, columns in ("bf16", 128), ("f16", 128), ("bf16", 192), ("f16", 192), ("bf16", 256), ("f16", 256):
            for turned in (0, 0), (0, 1), (1, 0), (1, 1):
                calls = ["multiply(%r, %r, %r, %r)" % (turned, (a, b), (strides[a, turned[0]], strides[b, turned[1]]), dtype == "bf16") for a, b in ((0, 0), (1, 2), (2, 1), (3, 3), (1, 1))]
                self.good(text_of(dtype, turned, columns) + "for z, want in %s: print(np.array_equal(z, want))\ncall('cuModuleUnload', own)" % ", ".join(calls), "True\n" * len(calls))

    def test_what_is_wrong(self):
        plain = "multiply((0, 0), (1, 1), ((1, 64), (1, 64)), True)\n"
        for part, wrong in (("memory", "a product of what was stored without fence.proxy.async before the barrier"), ("registers", "a product without wgmma.fence before it"),
                            ("commit", "a product without wgmma.commit_group behind it"), ("wait", "a product that nobody waits for")):
            self.bad(text_of(**{part: ""}) + plain, "kernel: " + wrong, "multiply: it does what a GPU leaves undefined")
        self.bad(text_of(more="+ threadIdx.x / 64") + plain, "kernel: descriptors differ in a warpgroup")
        self.bad(text_of(more="| 1ll << 49") + plain, "kernel: a panel that does not begin at a multiple of its pattern")

    def test_late(self):
        """What is stored before a product is waited for is what it reads; its sums are not there before."""
        plain = "z, want = multiply((0, 0), (1, 1), ((1, 64), (1, 64)), True); print((z == want).all(), (z == 1).all())\ncall('cuModuleUnload', own)"
        self.good(text_of() + plain, "True False")
        self.good(text_of(commit="stepc_wgmma_commit(); __syncthreads(); for (int i = threadIdx.x; i < 16384; i += 128) a[i] = 0; __syncthreads();") + plain, "False True")
        early = "stepc_wgmma_commit(); float e[SUMS]; for (int i = 0; i < SUMS; i++) e[i] = d[i];"
        self.good(text_of(commit=early, wait="stepc_wgmma_wait<SUMS, 0>(d); for (int i = 0; i < SUMS; i++) d[i] = e[i];") + plain, "False True")
        last = "stepc_wgmma_wait<SUMS, 1>(d); for (int i = 0; i < SUMS; i++) e[i] = d[i]; stepc_wgmma_wait<SUMS, 0>(d); for (int i = 0; i < SUMS; i++) d[i] = e[i];"
        self.good(text_of(commit=early, wait=last) + plain, "False True")
        self.good(text_of(commit=early + "stepc_wgmma_commit();", wait=last) + plain, "True False")  # the last group is empty

    def test_copies(self):
        """What a copy brings is fenced and met for before a product of it; none begins to where a product may still read."""
        plain = "z, want = multiply((0, 0), (1, 1), ((1, 64), (1, 64)), True); print((z == want).all())\ncall('cuModuleUnload', own)"
        begin, end = "stepc_copy((unsigned *)a + 4 * threadIdx.x, x + 8 * threadIdx.x, true); stepc_copies_end();", "stepc_copies_wait<0>();"
        bring = "for (int i = threadIdx.x; i < 512; i += 128) a[i] = 0; __syncthreads(); " + begin
        self.good(text_of(memory=bring + end + "stepc_async_fence();") + plain, "True")
        self.bad(text_of(memory=bring + "stepc_async_fence();" + end) + plain, "kernel: a product of what was stored without fence.proxy.async before the barrier")
        self.bad(text_of(memory=bring + end + "stepc_async_fence(); __syncthreads();" + begin + end + "stepc_async_fence(); if (false)") + plain, "without a barrier between")
        self.bad(text_of(memory=bring + "stepc_async_fence();", wait=PARTS["wait"] + end) + plain, "what has not arrived")
        self.bad(text_of(commit=PARTS["commit"] + begin, wait=PARTS["wait"] + end) + plain, "a copy to what a product may still read")


def tool(*names):
    """A program of the toolkit."""
    folders = [os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/bin"]
    return next((found for name in names for found in (shutil.which(name, path=os.pathsep.join([os.environ["PATH"], *folders])),) if found), None)


class Code(runner.Case):
    verify = False

    def compiled(self, o, archs):
        done = runner.attempt(self.program, "compile", self.write("model.json", o), "-q", "-o", self.path("step.so"), "--target", "cuda", "--cuda-arch", archs, verify=False)
        if done.returncode == 3 and "NVRTC" in done.stderr:
            self.skipTest(done.stderr.strip())
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.path("step.so"), "rb") as f:
            return f.read()

    def test_machine_code(self):
        """Of products whose operands lie each way round, forward and backward, by tiles of each width: products are under way while others are waited for,
        their sums stay in registers."""
        if not tool("ptxas"):
            self.skipTest("no ptxas")
        found, code, all_found = set(), "", 0
        for o in (products.step({"x": [2048, 1536]}, "relu(x @ w) @ v", {"w": [1536, 2304], "v": [2304, 1536]}, "bfloat16"), products.product(4096, 64, 4096, "bfloat16")):
            data, told, count, alone = self.compiled(o, "compute_90a"), "", 0, set()
            for text in [t.split(b"\0")[0] for t in re.split(rb"(?=//\n// Generated by NVIDIA NVVM Compiler)", data)[1:]]:
                with open(self.path("step.ptx"), "wb") as f:
                    f.write(text)
                ways = re.findall(rb"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k16\.f32\.bf16\.bf16 \{[^}]*\}, %rd\d+, %rd\d+, adds, 1, 1, ([01]), ([01]);", text)
                found, count = found | set(ways), count + len(ways)
                alone |= {k for k, body in re.findall(r"\.entry (\w+)\((.*?)\n}\n", text.decode(), re.S) if re.search(r"m64n(192|256)k16", body)}
                done = subprocess.run([tool("ptxas"), "-v", "-arch=sm_90a", self.path("step.ptx"), "-o", self.path("step.cubin")], capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                told += done.stdout + done.stderr
                if tool("nvdisasm"):
                    code += subprocess.run([tool("nvdisasm"), "-c", self.path("step.cubin")], capture_output=True, text=True).stdout
            self.assertGreaterEqual(count, 2 * 5)  # steps of products
            all_found += count
            for kernel, registers in re.findall(r"Compiling entry function '(\w+)'.*?Used (\d+) registers", told, re.S):
                self.assertLessEqual(int(registers), 192 if kernel in alone else 128, kernel)
            self.assertNotIn("serialized", told)
            self.assertNotIn("warning", told)
            spills = re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", told)
            self.assertLessEqual(max(int(n) for both in spills for n in both), 16, told)  # addresses, where a host's input is gathered; sums are 256 and more
        self.assertEqual({(x, y) for _, x, y in found}, {(b"0", b"0"), (b"0", b"1"), (b"1", b"1")})
        self.assertEqual({columns for columns, _, _ in found}, {b"128", b"192", b"256"})
        for columns in (128, 192, 256) if code else ():
            self.assertIn("HGMMA.64x%dx16.F32.BF16" % columns, code)
        if code:
            self.assertGreaterEqual(len(re.findall(r"HGMMA\.64x\d+x16\.F32\.BF16", code)), all_found)

    def test_other_architectures(self):
        """Beside sm_90a, too: what is made of one text for sm_80 is not for it."""
        self.compiled(products.product(1408, 64, 1536, "float16"), "sm_80,sm_90,sm_90a")


if __name__ == "__main__":
    runner.main()
