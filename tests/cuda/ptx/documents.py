"""Documents whose kernels are replayed: every template of the compiler for GPUs, small enough for an emulator."""
import os
import sys

CUDA = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [CUDA, os.path.join(CUDA, "..")]
import maps
import products
import sequences

sys.path[:0] = [os.path.join(CUDA, "..", "attention")]
from attention import document, heads, written

WIDE = {"precision": {"compute": "bfloat16"}}
HALF = {"precision": {"compute": "float16"}}
TOKENS = {"c": {"shape": [2, 97, 20], "dtype": "float32", "axes": ["batch", None, None]}}
MASK = {"m": {"shape": [2, 1, 64, 64], "dtype": "bool"}}
WEIGHTS = "astype(softmax(astype(q @ %s, 'float32')), 'bfloat16') @ v"

ATTENTION = {
    "plain": document(2, 64, 32, [heads()]), "causal": document(2, 70, 32, [heads(is_causal=True)]), "mask": document(2, 64, 32, [heads(mask="m", is_causal=True)], MASK),
    "grouped": document(2, 64, 32, [heads(num_kv_heads=2)]), "other_length": document(2, 75, 20, [heads(inputs=["x", "c"])], TOKENS),
    "panels": document(2, 128, 32, [heads(is_causal=True)], **WIDE), "panels_mask": document(2, 64, 32, [heads(mask="m", is_causal=True)], MASK, **WIDE),
    "panels_grouped": document(2, 128, 32, [heads(num_kv_heads=2)], **WIDE), "panels_other_length": document(2, 150, 20, [heads(inputs=["x", "c"])], TOKENS, **WIDE),
    "panels_float16": document(2, 100, 32, [heads(is_causal=True)], **HALF), "panels_float16_grouped": document(2, 128, 32, [heads(num_kv_heads=2)], **HALF),
    "panels_dropout": document(2, 64, 32, [heads(dropout_rate=0.1)], **WIDE), "dropout": document(2, 64, 32, [heads(dropout_rate=0.1)]),
    **{"panels_of_%d" % d: document(1, d + 61, 2 * d, [heads(num_heads=2, qkv_features=2 * d, is_causal=d != 64)], **WIDE) for d in (40, 48, 64, 80, 96, 128)},
    "panels_of_256": document(1, 130, 256, [heads(num_heads=1)], **WIDE),
    "panels_by_columns": document(2, 190, 24, [written(WEIGHTS % "astype(m, 'bfloat16')", 24, depth=16)], {"m": {"shape": [2, 16, 190], "dtype": "float32", "axes": ["batch", None, None]}}, **WIDE),
}
LAYERS = {
    "rows": products.step({"x": [70, 130]}, "softmax(x * w, axis=-1) * v", {"w": [130], "v": [70, 130]}), "rows_bfloat16": products.step({"x": [70, 130]}, "softmax(x * w, axis=-1) * v", {"w": [130], "v": [70, 130]}, "bfloat16"),
    "norm": {"stepc": 1, "inputs": {"x": {"shape": [37, 96]}, "y": {"shape": [37, 5]}}, "model": {"type": "sequential", "input": "x", "layers": [
        {"type": "layer_norm"}, {"type": "linear", "features": 33}, {"type": "gelu"}, {"type": "dropout", "rate": 0.3}, {"type": "linear", "features": 5}]},
        "loss": "mean((model - y)**2)", "optimizer": {"type": "adamw", "learning_rate": 0.01}},
    "columns": products.step({"x": [700, 40]}, "x * w + v", {"w": [40], "v": [40]}),
    "sums": products.step({"x": [20, 300]}, "cumsum(x * w, axis=1) + sort(x * v, axis=1)", {"w": [300], "v": [300]}),
}


def warpgroups(o):
    return o, "text_90a", {"STEPC_WARPGROUPS_ALWAYS": "1"}


# name -> document, the text's architecture, the environment
ALL = {
    **{"product_" + name: (o, "text", {}) for name, o in {**products.CASES, **products.COPIED}.items() if name not in ("largest", "many_ragged_tiles")},
    **{"warpgroups_" + name: warpgroups(o) for name, o in products.WARPGROUPS.items()},
    **{"attention_" + name: (o, "text", {}) for name, o in ATTENTION.items()},
    **{"map_" + name: (o, "text", {}) for name, o in {**maps.TURNED, **maps.STRAY}.items()},
    **{"table_" + name: (maps.table(*o), "text", {}) for name, o in maps.TABLES.items()},
    **{"layer_" + name: (o, "text", {}) for name, o in LAYERS.items()},
    "sequence_words": (sequences.document(["tanh(x)"] * 60), "text", {}), "sequence_parts": (sequences.document(sequences.EACH[:40]), "text", {}),
}
# Copies, panels, the matrix unit, products by warpgroups, folds, random numbers, scatters.
FEW = ("warpgroups_one_block_bfloat16", "product_two_blocks_bfloat16", "product_turned_float16", "warpgroups_turned_float16", "attention_panels_mask", "layer_norm")
