#!/usr/bin/env python3
"""A tree of arrays that Orbax saved, to one safetensors file: names are the keys of the tree, joined by dots.

    python3 samples/import/orbax_to_stepc.py runs/1200/state --prefix params -o init.safetensors
    stepc run step.so --init init.safetensors ...

Needs orbax-checkpoint, which does the reading. Of a checkpoint with several items, or of several steps, one is named.
"""
import glob
import os
import sys

import jax
import numpy as np
import orbax.checkpoint as ocp

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
import tensors
import tensor_trees


def read(path):
    path = os.path.abspath(path)
    if not os.path.exists(os.path.join(path, "_METADATA")):
        below = sorted(os.path.dirname(p) for depth in ("*", "*/*") for p in glob.glob(os.path.join(path, depth, "_METADATA")))
        old = "; a file \"checkpoint\" without _METADATA is that of T5X, or of a first version of Orbax" if os.path.isfile(os.path.join(path, "checkpoint")) else ""
        raise tensors.Bad("%s is no tree that Orbax saved%s" % (path, "; there are " + ", ".join(below[:10]) if below else old))
    checkpointer = ocp.PyTreeCheckpointer()
    metadata = checkpointer.metadata(path)
    metadata = getattr(metadata, "item_metadata", metadata)
    metadata = getattr(metadata, "tree", metadata)
    plain = lambda leaf: ocp.RestoreArgs(restore_type=np.ndarray) if hasattr(leaf, "shape") else ocp.RestoreArgs()
    restored = checkpointer.restore(path, restore_args=jax.tree.map(plain, metadata))
    leaves, others = [], []
    for keys, leaf in jax.tree_util.tree_flatten_with_path(restored, is_leaf=lambda x: x is None)[0]:
        name = ".".join(str(next(getattr(k, a) for a in ("key", "idx", "name") if hasattr(k, a))) for k in keys)
        if isinstance(leaf, (np.ndarray, np.generic, int, float, bool)):
            leaf = np.asarray(leaf)
            bits = leaf.dtype.name == "bfloat16"
            leaves.append((name, leaf.view(np.uint16) if bits else leaf, bits))
        else:
            others.append(name)
    return leaves, others


if __name__ == "__main__":
    tensors.program(lambda: tensor_trees.run(__doc__, read, sys.argv[1:]))
