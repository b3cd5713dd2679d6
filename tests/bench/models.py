"""Networks that the other workloads do not have: convolutions with batch normalisation, long attention, a large vocabulary."""
import numpy as np


def ce(logits, labels):
    import optax
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def adam():
    import optax
    return optax.adam(1e-3)


def torch_adam(p):
    import torch
    return torch.optim.Adam(p.values(), lr=1e-3, eps=1e-8)


LABELS = {"type": "softmax_cross_entropy_with_integer_labels", "labels": "y", "reduction": "mean"}
ADAM = {"type": "adam", "learning_rate": 1e-3}


# ---------------------------------------------------------------- convolutions

WIDTHS = (32, 64, 128)


def resnet(bench, options, rows=16):
    """A residual network of CIFAR's size: 32, 64 and 128 channels, batch normalisation, 16 images of 32 x 32, Adam."""
    conv = lambda name, features, given, kernel=3, stride=1: {
        "type": "conv", "name": name, "features": features, "kernel_size": [kernel, kernel], "strides": stride, "use_bias": False, "input": given}
    norm = lambda name, given: {"type": "batch_norm", "name": name, "input": given}
    nodes, last = [conv("stem", WIDTHS[0], "x"), norm("stem_bn", "stem")], "relu(stem_bn)"
    for i, width in enumerate(WIDTHS):
        b, stride = "b%d" % i, 1 if i == 0 else 2
        nodes += [{"type": "expr", "name": b, "expr": last}, conv(b + "_1", width, b, 3, stride), norm(b + "_bn1", b + "_1"),
                  conv(b + "_2", width, "relu(%s_bn1)" % b), norm(b + "_bn2", b + "_2"), conv(b + "_s", width, b, 1, stride)]
        last = "relu(%s_bn2 + %s_s)" % (b, b)
    nodes += [{"type": "linear", "name": "out", "features": 10, "input": "mean(%s, axis=(1, 2))" % last}]
    document = {"stepc": 1, "inputs": {"x": {"shape": [rows, 32, 32, 3], "axes": ["batch", None, None, None]}, "y": {"shape": [rows], "dtype": "int32", "axes": ["batch"]}},
                "model": {"type": "graph", "nodes": nodes, "output": "out"}, "loss": dict(LABELS, logits="model"), "optimizer": ADAM}
    random = np.random.default_rng(0)
    batches = [(random.standard_normal((rows, 32, 32, 3), np.float32), random.integers(0, 10, rows).astype(np.int32)) for _ in range(4)]

    def forward(p, x, f):
        x = f.relu(f.norm(p, "stem_bn", f.conv(x, p["stem.kernel"], 1)))
        for i in range(len(WIDTHS)):
            b, stride = "b%d" % i, 1 if i == 0 else 2
            y = f.relu(f.norm(p, b + "_bn1", f.conv(x, p[b + "_1.kernel"], stride)))
            y = f.norm(p, b + "_bn2", f.conv(y, p[b + "_2.kernel"], 1))
            x = f.relu(y + f.conv(x, p[b + "_s.kernel"], stride))
        return f.mean(x) @ p["out.kernel"] + p["out.bias"]

    def jax_loss(p, x, y):
        import jax
        import jax.numpy as jnp

        class F:
            relu = staticmethod(jax.nn.relu)

            @staticmethod
            def conv(a, w, s):
                return jax.lax.conv_general_dilated(a, w, (s, s), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

            @staticmethod
            def norm(q, n, a):
                mean = a.mean((0, 1, 2))
                variance = jnp.maximum(0, (a * a).mean((0, 1, 2)) - mean * mean)
                return (a - mean) * (jax.lax.rsqrt(variance + 1e-5) * q[n + ".scale"]) + q[n + ".bias"]

            @staticmethod
            def mean(a):
                return a.mean((1, 2))
        return ce(forward(p, x, F), y)

    def torch_loss(p, x, y):
        import torch
        import torch.nn.functional as tf

        class F:
            relu = staticmethod(torch.relu)

            @staticmethod
            def conv(a, w, s):
                k, size = w.shape[0], a.shape[-1]
                total = max((-(-size // s) - 1) * s + k - size, 0)
                a = tf.pad(a, (total // 2, total - total // 2) * 2)
                return tf.conv2d(a, w.permute(3, 2, 0, 1), stride=s)

            @staticmethod
            def norm(q, n, a):
                return tf.batch_norm(a, None, None, q[n + ".scale"], q[n + ".bias"], training=True, eps=1e-5)

            @staticmethod
            def mean(a):
                return a.mean((2, 3))
        return tf.cross_entropy(forward(p, x.permute(0, 3, 1, 2), F), y)
    return bench.model_workload(options, document, batches, jax_loss, torch_loss, adam, torch_adam, 4)


# ---------------------------------------------------------------- attention

def attention(bench, options, times):
    """Two layers of causal attention over `times` positions, 4 heads of 64, one row, Adam."""
    width, heads = 256, 4
    document = {"stepc": 1, "inputs": {"x": {"shape": [1, times, width], "axes": ["batch", None, None]}, "y": {"shape": [1, times, width], "axes": ["batch", None, None]}},
                "model": {"type": "sequential", "input": "x", "layers": [
                    {"type": "residual", "layers": [{"type": "multi_head_attention", "name": "a%d" % i, "num_heads": heads, "is_causal": True, "use_bias": False}]}
                    for i in range(2)]},
                "loss": "mean((model - y) ** 2)", "optimizer": ADAM}
    random = np.random.default_rng(0)
    batches = [tuple(random.standard_normal((1, times, width), np.float32) for _ in range(2)) for _ in range(4)]

    def forward(p, x, f):
        layers = sorted({n.rsplit(".", 2)[0] for n in p})
        for q in layers:
            query, key, value = (f.einsum("btc,chd->bthd", x, p["%s.%s.kernel" % (q, n)]) for n in ("query", "key", "value"))
            x = x + f.einsum("bthd,hdc->btc", f.attention(query, key, value), p[q + ".out.kernel"])
        return x
    jax_loss = lambda p, x, y: ((forward(p, x, bench.jax_functions()) - y) ** 2).mean()
    torch_loss = lambda p, x, y: ((forward(p, x, bench.torch_functions()) - y) ** 2).mean()
    return bench.model_workload(options, document, batches, jax_loss, torch_loss, adam, torch_adam, 4)


# ---------------------------------------------------------------- a large vocabulary

def vocabulary(bench, options):
    """An embedding and a projection to 32,000 words, 256 wide, 256 tokens, SGD."""
    words, width, tokens = 32000, 256, 256
    document = {"stepc": 1, "inputs": {"x": {"shape": [tokens], "dtype": "int32", "axes": ["batch"]}, "y": {"shape": [tokens], "dtype": "int32", "axes": ["batch"]}},
                "model": {"type": "sequential", "input": "x", "layers": [
                    {"type": "embed", "name": "embed", "num_embeddings": words, "features": width},
                    {"type": "layer_norm", "name": "norm", "epsilon": 1e-5},
                    {"type": "linear", "name": "head", "features": words, "use_bias": False}]},
                "loss": dict(LABELS, logits="model"), "optimizer": {"type": "sgd", "learning_rate": 0.1}}
    random = np.random.default_rng(0)
    batches = [tuple(random.integers(0, words, tokens).astype(np.int32) for _ in range(2)) for _ in range(4)]
    forward = lambda p, x, f: f.norm(p["embed.embedding"][x], p["norm.scale"], p["norm.bias"]) @ p["head.kernel"]

    def torch_loss(p, x, y):
        import torch
        return torch.nn.functional.cross_entropy(forward(p, x, bench.torch_functions()), y)

    def tx():
        import optax
        return optax.sgd(0.1)

    def torch_optimizer(p):
        import torch
        return torch.optim.SGD(p.values(), lr=0.1)
    return bench.model_workload(options, document, batches, lambda p, x, y: ce(forward(p, x, bench.jax_functions()), y), torch_loss, tx,
                                torch_optimizer, 2)
