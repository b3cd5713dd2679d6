#!/usr/bin/env python3
"""300 steps of a small transformer (the GPT-2 template: clipping, AdamW with a mask, warm-up and cosine) on batches that are new
each time, beside the same in PyTorch: the losses are within 0.1 % of curve.json. Weights to begin with and batches are drawn here.

    curve.py --record      anew, with PyTorch (float32, one thread)
"""
import copy
import json
import math
import os
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(ROOT, "samples")]
from tool import runner

RECORDED = os.path.join(HERE, "curve.json")
STEPS, BOUND = 300, 1e-3
SIZES = {"batch": 8, "context": 16, "vocabulary": 64, "width": 32, "heads": 4, "layers": 2, "steps": 400}
PEAK, END, WARM, B1, B2, EPS, DECAY, CLIP = 6e-4, 6e-5, 200, 0.9, 0.95, 1e-8, 0.1, 1.0  # of the template


def document(program):
    d = json.loads(runner.call(program, "init", "gpt2"))
    d["constants"].update(SIZES)
    return d


def shapes():
    width, heads, inner = SIZES["width"], SIZES["heads"], 4 * SIZES["width"]
    out = {"wte.embedding": (SIZES["vocabulary"], width), "wpe.embedding": (SIZES["context"], width), "ln_f.scale": (width,), "ln_f.bias": (width,)}
    for i in range(SIZES["layers"]):
        layer = {"ln_1.scale": (width,), "ln_1.bias": (width,), "ln_2.scale": (width,), "ln_2.bias": (width,),
                 "mlp.c_fc.kernel": (width, inner), "mlp.c_fc.bias": (inner,), "mlp.c_proj.kernel": (inner, width), "mlp.c_proj.bias": (width,),
                 "attn.out.kernel": (heads, width // heads, width), "attn.out.bias": (width,)}
        for part in ("query", "key", "value"):
            layer.update({"attn.%s.kernel" % part: (width, heads, width // heads), "attn.%s.bias" % part: (heads, width // heads)})
        out.update({"h.%d.%s" % (i, n): s for n, s in layer.items()})
    return out


def begin():
    rng = np.random.default_rng(0)
    return {n: (np.ones(s) if n.endswith("scale") else np.zeros(s) if n.endswith("bias") else 0.02 * rng.standard_normal(s)).astype("f4")
            for n, s in sorted(shapes().items())}


def batches():
    """Words that mostly follow from the one before."""
    rng, n = np.random.default_rng(1), SIZES["vocabulary"]
    for _ in range(STEPS):
        text = rng.integers(0, n, (SIZES["batch"], SIZES["context"] + 1))
        for t in range(SIZES["context"]):
            text[:, t + 1] = np.where(rng.random(SIZES["batch"]) < 0.8, (5 * text[:, t] + 7) % n, text[:, t + 1])
        yield text[:, :-1].astype("i4"), text[:, 1:].astype("i4")


def rate(step):
    if step < WARM:
        return PEAK * step / WARM
    return END + (PEAK - END) * 0.5 * (1 + math.cos(math.pi * min(1, (step - WARM) / (SIZES["steps"] - WARM))))


def in_pytorch():
    import torch
    import torch.nn.functional as F
    torch.set_num_threads(1)
    w = {n: torch.tensor(v, requires_grad=True) for n, v in begin().items()}
    m, v = ({n: torch.zeros_like(t) for n, t in w.items()} for _ in range(2))
    norm = lambda x, n: F.layer_norm(x, x.shape[-1:], w[n + ".scale"], w[n + ".bias"], 1e-5)
    losses = []
    for step, (tokens, targets) in enumerate(batches()):
        x = w["wte.embedding"][torch.tensor(tokens).long()] + w["wpe.embedding"]
        for i in range(SIZES["layers"]):
            p = "h.%d." % i
            y = norm(x, p + "ln_1")
            q, k, u = (torch.einsum("btw,whd->bhtd", y, w[p + "attn.%s.kernel" % part]) + w[p + "attn.%s.bias" % part][:, None] for part in ("query", "key", "value"))
            a = F.scaled_dot_product_attention(q, k, u, is_causal=True)
            x = x + torch.einsum("bhtd,hdw->btw", a, w[p + "attn.out.kernel"]) + w[p + "attn.out.bias"]
            y = F.gelu(norm(x, p + "ln_2") @ w[p + "mlp.c_fc.kernel"] + w[p + "mlp.c_fc.bias"], approximate="tanh")
            x = x + y @ w[p + "mlp.c_proj.kernel"] + w[p + "mlp.c_proj.bias"]
        logits = norm(x, "ln_f") @ w["wte.embedding"].T
        loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), torch.tensor(targets).long().reshape(-1))
        losses.append(loss.item())
        grads = dict(zip(w, torch.autograd.grad(loss, list(w.values()))))
        length = torch.sqrt(sum((g**2).sum() for g in grads.values()))
        with torch.no_grad():
            for n, g in grads.items():
                g = g if length < CLIP else g / length * CLIP
                m[n], v[n] = B1 * m[n] + (1 - B1) * g, B2 * v[n] + (1 - B2) * g**2
                u = m[n] / (1 - B1**(step + 1)) / (torch.sqrt(v[n] / (1 - B2**(step + 1))) + EPS)
                w[n] -= rate(step) * (u + (DECAY * w[n] if n.endswith(("kernel", "embedding")) else 0))
    return losses, torch.__version__


def in_stepc(program, broken=False):
    import stepc
    with tempfile.TemporaryDirectory() as folder:
        d = document(program)
        if broken:
            d["optimizer"]["transforms"][1]["b2"] = 0.9
        path = runner.write_json(os.path.join(folder, "model.json"), d)
        runner.call(program, "compile", "-q", path, "-o", path[:-4] + "so", verify=False)
        with stepc.Step(path[:-4] + "so", threads=1) as step:
            step.init()
            if broken is None:
                return step.names()
            for n, value in begin().items():
                step[n] = value
            return [step.step(tokens=tokens, targets=targets).loss for tokens, targets in batches()]


def differences(program):
    """What is wrong."""
    with open(RECORDED) as f:
        expected = np.array(json.load(f)["losses"])
    apart = lambda losses: float(np.max(np.abs(np.array(losses) / expected - 1)))
    ours, broken = apart(in_stepc(program)), apart(in_stepc(program, True))
    out = ["the curve of PyTorch is %g away, at most %g" % (ours, BOUND)] if not ours <= BOUND else []
    return out + (["another b2 is not noticed in the curve (%g)" % broken] if not broken > BOUND else [])


if __name__ == "__main__":
    if sys.argv[1:] != ["--record"]:
        sys.exit(__doc__)
    losses, version = in_pytorch()
    with open(RECORDED, "w") as f:
        json.dump({"//": "losses of %d steps in PyTorch %s, by curve.py --record" % (STEPS, version), "losses": [round(x, 6) for x in losses]}, f)
        f.write("\n")
    print(losses[0], losses[-1])
