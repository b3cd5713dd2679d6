#!/usr/bin/env python3
"""A checkpoint of torch.distributed.checkpoint (DCP), whatever processes saved it, to one safetensors file, names as they are there.

    python3 samples/import/dcp_to_stepc.py checkpoint/ --prefix model -o init.safetensors

Needs torch, which does the reading: its metadata is a pickle, so take only checkpoints that you trust. Objects that are no tensors
are left out and named. Nothing is transposed: a Linear of PyTorch has its weight as [out, in], hf.py knows that of its models.
"""
import os
import sys

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.metadata import TensorStorageMetadata

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
import tensors
import tensor_trees


def numpy_has(dtype):
    try:
        return dtype == torch.bfloat16 or torch.zeros((), dtype=dtype).numpy() is not None
    except (TypeError, RuntimeError):
        return False


def read(path):
    if not os.path.exists(os.path.join(path, ".metadata")):
        raise tensors.Bad("%s is no checkpoint of torch.distributed.checkpoint: it has no .metadata" % path)
    entries = dcp.FileSystemReader(path).read_metadata().state_dict_metadata
    there = {name: e for name, e in entries.items() if isinstance(e, TensorStorageMetadata)}
    state = {name: torch.empty(tuple(e.size), dtype=e.properties.dtype) for name, e in there.items() if numpy_has(e.properties.dtype)}
    dcp.load(state, storage_reader=dcp.FileSystemReader(path), no_dist=True)
    bits = {name: t.view(torch.uint16) if t.dtype == torch.bfloat16 else t for name, t in state.items()}  # NumPy has no bfloat16
    leaves = [(name, bits[name].numpy() if name in bits else e.properties, e.properties.dtype == torch.bfloat16) for name, e in there.items()]
    return leaves, [name for name in entries if name not in there]


if __name__ == "__main__":
    tensors.program(lambda: tensor_trees.run(__doc__, read, sys.argv[1:]))
