"""NVRTC as codegen/cuda/cuda_nvrtc.c calls it: a text's PTX, which takes seconds and is kept in a folder."""
import ctypes
import hashlib
import os

OPTIONS = ("--std=c++17", "--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true", "--disable-warnings", "--minimal")


def library():
    """None: there is none."""
    given = os.environ.get("STEPC_NVRTC")
    names = [given] if given else [os.path.join(folder, "lib64" if folder else "", name) for folder in ("", os.environ.get("CUDA_HOME", ""), "/usr/local/cuda") for name in (
        "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so")]
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def ptx(nvrtc, text, arch, cache=None):
    """`arch`: "compute_90a"."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    options = ["--gpu-architecture=" + arch, *OPTIONS[:len(OPTIONS) - (major.value < 13)]]
    name = hashlib.sha256(repr((major.value, minor.value, options, text)).encode()).hexdigest()[:24] + ".ptx"
    kept = cache and os.path.join(cache, name)
    if kept and os.path.exists(kept):
        with open(kept, encoding="utf-8") as f:
            return f.read()
    made = compiled(nvrtc, text, options)
    if kept:
        os.makedirs(cache, exist_ok=True)
        with open("%s.%d" % (kept, os.getpid()), "w", encoding="utf-8") as f:
            f.write(made)
        os.rename("%s.%d" % (kept, os.getpid()), kept)
    return made


def compiled(nvrtc, text, options):
    program, size = ctypes.c_void_p(), ctypes.c_size_t()

    def take(ask, get):
        ask(program, ctypes.byref(size))
        data = ctypes.create_string_buffer(size.value)
        get(program, data)
        return data.value.decode()
    if nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"step.cu", 0, None, None):
        raise RuntimeError("NVRTC makes no program")
    try:
        if nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*(o.encode() for o in options))):
            raise RuntimeError("NVRTC: " + take(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog))
        return take(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX)
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
