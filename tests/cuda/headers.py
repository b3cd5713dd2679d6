#!/usr/bin/env python3
"""What the runtime declares of NVIDIA's libraries, which it opens without their headers, is what these headers say: parameters,
structures and numbers, held against the headers of CUDA, NCCL and cuBLASLt by a C++ compiler; and the libraries have the names. Skipped where there
is neither toolkit nor compiler.

    tests/cuda/headers.py [folder of the headers]
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
COMPILER = shutil.which(os.environ.get("CXX") or "c++")
FOLDERS = sys.argv[1:] or [os.path.join(os.environ["CUDA_HOME"], "include")] * ("CUDA_HOME" in os.environ) + ["/usr/local/cuda/include", *sorted(glob.glob("/usr/local/cuda-*/include")), "/usr/include"]

# A parameter is passed alike if both are numbers or pointers of a size; what a pointer leads to has one size, where it has any.
CHECKS = r"""
#include <cstddef>
#include <type_traits>
template <class T, class = void> struct bytes { static constexpr size_t count = 0; };
template <class T> struct bytes<T, std::enable_if_t<std::is_object_v<T> && sizeof(T)>> { static constexpr size_t count = sizeof(T); };
template <class A, class B> struct leads_to { static constexpr bool same = true; };
template <class A, class B> struct leads_to<A *, B *>
{ static constexpr bool same = !bytes<A>::count || !bytes<B>::count || bytes<A>::count == bytes<B>::count; };
template <class A, class B> constexpr bool alike()
{ return sizeof(A) == sizeof(B) && std::is_class_v<A> == std::is_class_v<B> && (!std::is_pointer_v<A> || !std::is_pointer_v<B> || leads_to<A, B>::same); }
template <class A, class B> struct calls { static constexpr bool same = false; };
template <class R, class... A, class S, class... B> struct calls<R (*)(A...), S (*)(B...)>
{
    static constexpr bool test() { if constexpr (sizeof...(A) == sizeof...(B)) return sizeof(R) == sizeof(S) && (alike<A, B>() && ...); else return false; }
    static constexpr bool same = test();
};
"""

# (file of the runtime, its name): the header's
CUDA_NUMBERS = {
    ("cuda_driver.h", "RT_CUDA_UNIFIED"): "CU_MEMORYTYPE_UNIFIED",
    ("cuda_driver.c", "CAPABILITY_MAJOR"): "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR",
    ("cuda_driver.c", "CAPABILITY_MINOR"): "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR",
    ("cuda_driver.c", "NO_DEVICE"): "CUDA_ERROR_NO_DEVICE",
    ("cuda_driver.c", "NOT_READY"): "CUDA_ERROR_NOT_READY",
    ("cuda_graph.c", "THREAD_LOCAL"): "CU_STREAM_CAPTURE_MODE_THREAD_LOCAL",
    ("cuda_queue.c", "OWN_STREAM"): "CU_STREAM_NON_BLOCKING",
    ("cuda_queue.c", "NO_TIMES"): "CU_EVENT_DISABLE_TIMING",
    ("comm_peers.c", "NO_TIMES"): "CU_EVENT_DISABLE_TIMING",
    ("comm_peers.c", "ALREADY_ENABLED"): "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
    ("device_cuda.c", "JIT_ERRORS"): "CU_JIT_ERROR_LOG_BUFFER",
    ("device_cuda.c", "JIT_ERRORS_BYTES"): "CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES",
    ("device_cuda.c", "DYNAMIC_SHARED"): "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES",
    ("cuda_queue.c", "KERNELS_REACH_IT"): "CU_MEMHOSTALLOC_DEVICEMAP",
}
NCCL_NUMBERS = {
    ("nccl_library.h", "NCCL_SUCCESS"): "ncclSuccess",
    ("nccl_library.h", "NCCL_IN_PROGRESS"): "ncclInProgress",
    ("nccl_library.h", "NCCL_BYTES"): "ncclChar",
    ("nccl_library.h", "NCCL_SUM"): "ncclSum",
    ("nccl_library.h", "NCCL_MAX"): "ncclMax",
    ("nccl_library.h", "NCCL_MIN"): "ncclMin",
}
LT_NUMBERS = {
    ("cublaslt.h", "LT_NOT_SUPPORTED"): "CUBLAS_STATUS_NOT_SUPPORTED",
    ("cublaslt.h", "LT_R_32F"): "CUDA_R_32F",
    ("cublaslt.h", "LT_R_16F"): "CUDA_R_16F",
    ("cublaslt.h", "LT_R_16BF"): "CUDA_R_16BF",
    ("cublaslt.h", "LT_COMPUTE_32F"): "CUBLAS_COMPUTE_32F",
    ("cublaslt.h", "LT_OPERATION_TRANS_A"): "CUBLASLT_MATMUL_DESC_TRANSA",
    ("cublaslt.h", "LT_OPERATION_TRANS_B"): "CUBLASLT_MATMUL_DESC_TRANSB",
    ("cublaslt.h", "LT_TRANSPOSED"): "CUBLAS_OP_T",
    ("cublaslt.h", "LT_LAYOUT_BATCH_COUNT"): "CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT",
    ("cublaslt.h", "LT_LAYOUT_BATCH_STRIDE"): "CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET",
    ("cublaslt.h", "LT_WANT_WORKSPACE_BYTES"): "CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES",
    ("cublaslt.h", "LT_WANT_REDUCTION_MASK"): "CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK",
    ("cublaslt.h", "LT_WANT_ALIGNMENT_A"): "CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES",
    ("cublaslt.h", "LT_REDUCE_IN_WORKSPACE"): "CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE",
}
NCCL_DTYPES = {"U8": "Uint8", "I8": "Int8", "I32": "Int32", "U32": "Uint32", "I64": "Int64", "U64": "Uint64", "F16": "Float16", "F32": "Float32", "F64": "Float64", "BF16": "Bfloat16"}
ADVICE = {3: "NOT_INITIALIZED", 46: "DEVICE_UNAVAILABLE", 214: "ECC_UNCORRECTABLE", 218: "INVALID_PTX", 220: "NVLINK_UNCORRECTABLE", 222: "UNSUPPORTED_PTX_VERSION", 700: "ILLEGAL_ADDRESS", 702: "LAUNCH_TIMEOUT",
          719: "LAUNCH_FAILED", 802: "SYSTEM_NOT_READY", 803: "SYSTEM_DRIVER_MISMATCH", 804: "COMPAT_NOT_SUPPORTED_ON_DEVICE", 900: "STREAM_CAPTURE_UNSUPPORTED", 908: "STREAM_CAPTURE_WRONG_THREAD", 999: "UNKNOWN"}


def text_of(name):
    with open(os.path.join(ROOT, "runtime", name)) as f:
        return f.read()


def header(name):
    """The first folder that has it."""
    return next((f for f in FOLDERS if os.path.exists(os.path.join(f, name))), None)


def structure(source, name):
    return re.search(r"struct %s \{.*?\n\};" % name, source, re.S).group(0)


def functions(source, table):
    """Names in the library and parameters."""
    rows = re.search(r"#define %s\(X\) \\\n(.*?)/\*" % table, source, re.S).group(1).replace("\\\n", " ")
    return re.findall(r'X\(\w+, "(\w+)", (\(.*?\))\)\s*(?=X\(|$)', rows)


def number(file, name):
    value = re.search(r"\b%s = (\d+)" % name, text_of(file))
    assert value, "%s has no number %s" % (file, name)
    return int(value.group(1))


def numbers(rows):
    return ['static_assert(%s == %d, "%s: %s");' % (theirs, number(*ours), *ours) for ours, theirs in rows.items()]


def signatures(rows):
    return ['static_assert(calls<decltype(&%s), int (*)%s>::same, "%s");' % (name, parameters, name) for name, parameters in rows]


def offsets(ours, theirs, members):
    """`members`: "our name:theirs ..."."""
    pairs = [pair.split(":") for pair in members.split()]
    return ['static_assert(offsetof(%s, %s) == offsetof(%s, %s), "%s");' % (ours, a, theirs, b, b) for a, b in pairs]


def refused(folder, include, lines):
    """What the compiler says against it."""
    with tempfile.TemporaryDirectory(prefix="stepc-headers-") as tmp:
        path = os.path.join(tmp, "check.cpp")
        with open(path, "w") as f:
            f.write("#include <%s>\n%s\n%s\n" % (include, CHECKS, "\n".join(lines)))
        done = subprocess.run([COMPILER, "-std=c++17", "-fsyntax-only", "-I", folder, path], capture_output=True, text=True)
        return done.stderr if done.returncode else ""


def cuda_lines():
    source = text_of("cuda_driver.h")
    rows = "from_x:srcXInBytes from_y:srcY from_kind:srcMemoryType from_host:srcHost from:srcDevice from_array:srcArray from_pitch:srcPitch to_x:dstXInBytes to_y:dstY to_kind:dstMemoryType to_host:dstHost to:dstDevice to_array:dstArray to_pitch:dstPitch width:WidthInBytes height:Height"
    return ([structure(source, "rt_cuda_rows"), 'static_assert(sizeof(rt_cuda_rows) == sizeof(CUDA_MEMCPY2D), "rows");']
            + offsets("rt_cuda_rows", "CUDA_MEMCPY2D", rows)
            + signatures([*functions(source, "CUDA_FUNCTIONS"), *functions(source, "CUDA_LATER_FUNCTIONS")]) + numbers(CUDA_NUMBERS)
            + ['static_assert(CUDA_ERROR_%s == %d, "advice");' % (name, n) for n, name in ADVICE.items()])


def nccl_lines():
    """ncclConfig_t has grown since the version of ours, so a pointer to it is compared as an address; its first members are."""
    source, dtypes = text_of("nccl_library.h"), text_of("nccl_library.c")
    config = "size:size magic:magic version:version blocking:blocking cga:cgaClusterSize least_blocks:minCTAs most_blocks:maxCTAs net:netName share:splitShare"
    return ([structure(source, "rt_nccl_id"), structure(source, "rt_nccl_config"), 'static_assert(sizeof(rt_nccl_config) <= sizeof(ncclConfig_t), "config");', "constexpr ncclConfig_t initial = NCCL_CONFIG_INITIALIZER;"]
            + ['static_assert(initial.magic == %s, "magic");' % re.search(r"CONFIG_MAGIC (\w+)", text_of("comm_nccl.c")).group(1)]
            + offsets("rt_nccl_config", "ncclConfig_t", config)
            + signatures([(name, p.replace("struct rt_nccl_config *", "void *")) for name, p in functions(source, "NCCL_FUNCTIONS")]) + numbers(NCCL_NUMBERS)
            + ['static_assert(nccl%s == %d, "%s");' % (NCCL_DTYPES[t], int(n) - 1, t) for t, n in re.findall(r"\[STEP_(\w+)\] = (\d+)", dtypes)])


def lt_lines():
    source = text_of("cublaslt.h")
    found = "algorithm:algo workspace:workspaceSize status:state waves:wavesCount"
    return (["#include <cstdint>", structure(source, "rt_lt_algorithm"), structure(source, "rt_lt_found"), 'static_assert(sizeof(rt_lt_algorithm) == sizeof(cublasLtMatmulAlgo_t), "algorithm");',
             'static_assert(sizeof(rt_lt_found) == sizeof(cublasLtMatmulHeuristicResult_t), "found");']
            + offsets("rt_lt_found", "cublasLtMatmulHeuristicResult_t", found)
            + signatures(functions(source, "LT_FUNCTIONS")) + numbers(LT_NUMBERS))


@unittest.skipUnless(COMPILER, "no C++ compiler")
class Headers(unittest.TestCase):
    def check(self, include, lines, wrong):
        folder = header(include)
        if not folder:
            self.skipTest("no %s here" % include)
        self.assertGreater(len(lines), 20)
        self.assertEqual(refused(folder, include, lines), "")
        for line in wrong:  # and it does find what is wrong
            self.assertIn("static assertion failed", refused(folder, include, [line]))

    def test_driver(self):
        self.check("cuda.h", cuda_lines(), signatures([("cuMemAlloc_v2", "(void **, unsigned)"), ("cuMemGetInfo_v2", "(size_t *, unsigned *)"), ("cuCtxPopCurrent_v2", "(void **, int)")]))

    def test_nccl(self):
        self.check("nccl.h", nccl_lines(), signatures([("ncclSend", "(const void *, size_t, int, int, void *)")]))

    def test_cublaslt(self):
        self.check("cublasLt.h", lt_lines(), signatures([("cublasLtCreate", "(void *, int)"), ("cublasLtMatmulDescCreate", "(void **, int, int, int)")]))

    def test_names(self):
        """Every function is in the library of the toolkit: of the driver it has a stub, which only holds the names."""
        for table, file, patterns in ("CUDA_FUNCTIONS", "cuda_driver.h", ["stubs/libcuda.so"]), ("CUDA_LATER_FUNCTIONS", "cuda_driver.h", ["stubs/libcuda.so"]), ("NCCL_FUNCTIONS", "nccl_library.h", ["libnccl.so.2"]), ("LT_FUNCTIONS", "cublaslt.h", ["libcublasLt.so.13", "libcublasLt.so.12"]):
            with self.subTest(library=patterns[0]):
                found = [path for folder in FOLDERS for lib in ("lib64", "lib") for p in patterns if os.path.exists(path := os.path.join(folder, "..", lib, p))]
                if not found or not shutil.which("nm"):
                    self.skipTest("no %s here" % patterns[0])
                names = set(re.findall(r" [TW] (\w+)", subprocess.run(["nm", "-D", found[0]], capture_output=True, text=True).stdout))
                self.assertEqual([name for name, _ in functions(text_of(file), table) if name not in names], [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
