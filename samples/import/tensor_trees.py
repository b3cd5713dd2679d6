"""Trees of arrays to one safetensors file: what orbax_to_stepc.py and dcp_to_stepc.py share. Elements are only moved; what is left out is named.

    tensor_trees.run(doc, read, arguments)      # read(path) gives ([(name, array, whether it is the bits of a bfloat16), ...],
                                        # [names of what is no array])
"""
import argparse
import sys

import numpy as np

import tensors

NAMES = {np.dtype(t).newbyteorder("="): name for name, t in tensors.DTYPES.items() if name != "BF16"}


def dtype_of(name, array, bits):
    kind = getattr(array.dtype, "newbyteorder", lambda _: array.dtype)("=")  # of PyTorch: one that NumPy has not
    if not bits and kind not in NAMES:
        raise tensors.Bad("\"%s\" has the dtype %s, which is not supported" % (name, array.dtype))
    return "BF16" if bits else NAMES[kind]


def opened(read, path):
    """What it reads, or why the library that reads it cannot: damaged ones make it raise all kinds of errors."""
    try:
        return read(path)
    except BaseException as e:
        if isinstance(e, (tensors.Bad, OSError, KeyboardInterrupt, SystemExit)) and not isinstance(e, (IsADirectoryError, NotADirectoryError)):
            raise
        cause = next((cause for cause, _ in getattr(e, "failures", {}).values()), e)  # of PyTorch
        raise tensors.Bad("%s cannot be read: %s: %s" % (path, type(cause).__name__, str(cause).split("\n")[0][:1000])) from e


def run(doc, read, arguments):
    parser = argparse.ArgumentParser(description=doc.split("\n")[0])
    parser.add_argument("checkpoint")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="safetensors")
    parser.add_argument("--prefix", default="", metavar="NAME", help="only what lies below, without this part of its names: params, model")
    parser.add_argument("--suffix", default="", metavar="NAME", help="also without this last part of names: value (of Flax NNX)")
    options = parser.parse_args(arguments)
    before, behind = options.prefix and options.prefix + ".", options.suffix and "." + options.suffix
    try:
        leaves, others = opened(read, options.checkpoint)
        found = {}
        for whole, array, bits in leaves:
            if not whole.startswith(before):
                others.append(whole)
                continue
            name = whole[len(before):].removesuffix(behind)
            if name in found:
                raise tensors.Bad("%s: two arrays are called \"%s\"" % (options.checkpoint, name))
            found[name] = dtype_of(whole, array, bits), array
        if not found:
            raise tensors.Bad("%s holds no array below \"%s\"%s" % (options.checkpoint, options.prefix, others and "; there are " + ", ".join(sorted(others)[:10]) or ""))
        tensors.write(options.output, [(name, dtype, a.shape, lambda a=a: a) for name, (dtype, a) in sorted(found.items())])
    except (tensors.Bad, OSError) as e:
        print("error: %s" % e, file=sys.stderr)
        return 1 if isinstance(e, tensors.Bad) else 3
    if others:
        print("note: left out: %s%s" % (", ".join(sorted(others)[:10]), " and %d more" % (len(others) - 10) if len(others) > 10 else ""), file=sys.stderr)
    print("%s: %d tensors" % (options.output, len(found)))
    return 0
