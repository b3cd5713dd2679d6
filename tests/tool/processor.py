"""What the CPU of this machine can run: tests of several instruction sets take those that there are."""


def flags():
    with open("/proc/cpuinfo") as f:
        return set(next((line for line in f if line.startswith("flags")), "").split())


def levels():
    """Of x86-64, lowest first, as `stepc compile --cpu` takes them."""
    has = flags()
    return ["x86-64-v2"] + ["x86-64-v3"] * ({"avx2", "fma"} <= has) + ["x86-64-v4"] * ({"avx2", "avx512vl", "avx512bw"} <= has)


def able(name):
    """A name of `--cpu` that was drawn, or "native" where this CPU cannot run that level."""
    return name if name == "native" or name in levels() else "native"
