"""Networks that the other workloads do not have: layers of a few hundred columns, convolutions, recurrent and large transformers, long attention, a
large vocabulary. PyTorch's optimizers are its fused ones."""
import numpy as np


def ce(logits, labels):
    import optax
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def adam():
    import optax
    return optax.adam(1e-3)


def torch_adam(p):
    import torch
    return torch.optim.Adam(p.values(), lr=1e-3, eps=1e-8, fused=True)


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


# ---------------------------------------------------------------- digits of 28 x 28

def images(random, rows):
    return [(random.standard_normal((rows, 28, 28, 1), np.float32), random.integers(0, 10, rows).astype(np.int32)) for _ in range(4)]


def digits(bench, options, layers, rows, forward):
    """`layers` on images of 28 x 28 x 1, Adam; forward(p, x, f) with the convolutions and pools of a framework."""
    document = {"stepc": 1, "inputs": {"x": {"shape": [rows, 28, 28, 1], "axes": ["batch", None, None, None]}, "y": {"shape": [rows], "dtype": "int32", "axes": ["batch"]}},
                "model": {"type": "sequential", "input": "x", "layers": layers}, "loss": dict(LABELS, logits="model"), "optimizer": ADAM}

    def jax_loss(p, x, y):
        import jax

        class F:
            relu, flat = staticmethod(jax.nn.relu), staticmethod(lambda a: a.reshape(rows, -1))

            @staticmethod
            def conv(a, w):
                return jax.lax.conv_general_dilated(a, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

            @staticmethod
            def pool(a):
                return jax.lax.reduce_window(a, 0.0, jax.lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4
        return ce(forward(p, x, F), y)

    def torch_loss(p, x, y):
        import torch
        import torch.nn.functional as tf

        class F:
            relu, flat = staticmethod(torch.relu), staticmethod(lambda a: a.permute(0, 2, 3, 1).reshape(rows, -1))

            @staticmethod
            def conv(a, w):
                return tf.conv2d(a, w.permute(3, 2, 0, 1), padding="same")

            @staticmethod
            def pool(a):
                return tf.avg_pool2d(a, 2)
        return tf.cross_entropy(forward(p, x.permute(0, 3, 1, 2), F), y)
    return bench.model_workload(options, document, images(np.random.default_rng(0), rows), jax_loss, torch_loss, adam, torch_adam, 8)


def dense(p, name, x):
    return x @ p[name + ".kernel"] + p[name + ".bias"]


def mlp(bench, options):
    """784-512-512-10, 128 rows, Adam."""
    sizes = (512, 512, 10)
    layers = [{"type": "flatten", "start_dim": 1}]
    for i, n in enumerate(sizes):
        layers += [{"type": "linear", "name": "l%d" % i, "features": n}] + [{"type": "relu"}] * (i < 2)

    def forward(p, x, f):
        x = f.flat(x)
        for i in range(3):
            x = dense(p, "l%d" % i, x)
            x = f.relu(x) if i < 2 else x
        return x
    return digits(bench, options, layers, 128, forward)


def cnn(bench, options):
    """Convolutions of 32 and 64 channels, means of 2 x 2, 256 and 10 columns: the network of Flax's examples, 64 images of 28 x 28, Adam."""
    layers = []
    for i, n in enumerate((32, 64)):
        layers += [{"type": "conv", "name": "c%d" % i, "features": n, "kernel_size": [3, 3], "use_bias": False}, {"type": "relu"},
                   {"type": "avg_pool", "window_shape": [2, 2], "strides": [2, 2]}]
    layers += [{"type": "flatten", "start_dim": 1}, {"type": "linear", "name": "l0", "features": 256}, {"type": "relu"}, {"type": "linear", "name": "l1", "features": 10}]

    def forward(p, x, f):
        for i in range(2):
            x = f.pool(f.relu(f.conv(x, p["c%d.kernel" % i])))
        return dense(p, "l1", f.relu(dense(p, "l0", f.flat(x))))
    return digits(bench, options, layers, 64, forward)


# ---------------------------------------------------------------- language models

def words(random, rows, times, count):
    return [(b[:, :-1].copy(), b[:, 1:].copy()) for b in random.integers(0, count, (4, rows, times + 1)).astype(np.int32)]


def inputs(rows, times):
    return {n: {"shape": [rows, times], "dtype": "int32", "axes": ["batch", None]} for n in "xy"}


def gpt(bench, options, layers, width, heads, count, rows, times, tied=True, steps=2):
    """A transformer: pre-norm blocks, causal attention, an output that is the embedding (or a projection), Adam."""
    norm = lambda name: {"type": "layer_norm", "name": name, "epsilon": 1e-5}
    blocks = []
    for i in range(layers):
        blocks += [{"type": "residual", "layers": [norm("n%d" % i), {"type": "multi_head_attention", "name": "a%d" % i, "num_heads": heads, "is_causal": True, "use_bias": False}]},
                   {"type": "residual", "layers": [norm("m%d" % i), {"type": "linear", "name": "u%d" % i, "features": 4 * width}, {"type": "gelu"},
                                                   {"type": "linear", "name": "d%d" % i, "features": width}]}]
    head = {"type": "linear", "name": "head", "features": count, "use_bias": False}
    nodes = [{"type": "embed", "name": "wte", "num_embeddings": count, "features": width, "input": "x"},
             {"type": "param", "name": "wpe", "shape": [times, width], "init": {"type": "normal", "stddev": 0.02}},
             {"type": "sequential", "name": "body", "input": "wte + wpe", "layers": blocks + [norm("nf")] + ([] if tied else [head])}]
    document = {"stepc": 1, "inputs": inputs(rows, times), "model": {"type": "graph", "nodes": nodes, "output": "body @ transpose(params.wte.embedding)" if tied else "body"},
                "loss": dict(LABELS, logits="model"), "optimizer": ADAM}

    def forward(p, x, f):
        pick = lambda *name: p[next(n for n in p if n.endswith(".".join(name)))]
        x = p["wte.embedding"][x] + p["wpe"]
        for i in range(layers):
            y = f.norm(x, pick("n%d" % i, "scale"), pick("n%d" % i, "bias"))
            q, k, v = (f.einsum("btc,chd->bthd", y, pick("a%d" % i, n, "kernel")) for n in ("query", "key", "value"))
            x = x + f.einsum("bthd,hdc->btc", f.attention(q, k, v), pick("a%d" % i, "out", "kernel"))
            y = f.norm(x, pick("m%d" % i, "scale"), pick("m%d" % i, "bias"))
            y = f.gelu(y @ pick("u%d" % i, "kernel") + pick("u%d" % i, "bias"))
            x = x + y @ pick("d%d" % i, "kernel") + pick("d%d" % i, "bias")
        return f.norm(x, pick("nf", "scale"), pick("nf", "bias")) @ (p["wte.embedding"].T if tied else pick("head", "kernel"))

    def torch_loss(p, x, y):
        import torch
        return torch.nn.functional.cross_entropy(forward(p, x, bench.torch_functions()).flatten(0, 1), y.flatten())
    return bench.model_workload(options, document, words(np.random.default_rng(0), rows, times, count), lambda p, x, y: ce(forward(p, x, bench.jax_functions()), y), torch_loss,
                                adam, torch_adam, steps)


def lstm(bench, options):
    """An LSTM language model: 256 wide, 16 x 64 tokens of 256, Adam; PyTorch's is torch.lstm, for which its step joins the weights of the gates."""
    wide, rows, times, count = 256, 16, 64, 256
    document = {"stepc": 1, "inputs": inputs(rows, times),
                "model": {"type": "sequential", "input": "x", "layers": [
                    {"type": "embed", "name": "embed", "num_embeddings": count, "features": wide},
                    {"type": "rnn", "name": "rnn", "cell": {"type": "lstm_cell", "hidden_features": wide}}, {"type": "linear", "name": "out", "features": count}]},
                "loss": dict(LABELS, logits="model"), "optimizer": ADAM}
    given, carried = ("ii", "if_", "ig", "io"), ("hi", "hf", "hg", "ho")
    joined = lambda cat, p: (cat([p["rnn.cell.%s.%s" % (gate, kind)] for gate in gates], -1) for gates, kind in ((given, "kernel"), (carried, "kernel"), (carried, "bias")))

    def jax_loss(p, x, y):
        import jax
        import jax.numpy as jnp
        w, u, b = joined(jnp.concatenate, p)
        of_inputs = p["embed.embedding"][x] @ w + b

        def step(carry, a):
            c, h = carry
            i, f, g, o = jnp.split(a + h @ u, 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (c, h), h
        _, h = jax.lax.scan(step, (jnp.zeros((rows, wide)),) * 2, of_inputs.swapaxes(0, 1))
        return ce(dense(p, "out", h.swapaxes(0, 1)), y)

    def torch_loss(p, x, y):
        import torch
        w, u, b = joined(torch.cat, p)
        zero = torch.zeros(1, rows, wide)
        h, _, _ = torch.lstm(p["embed.embedding"][x], (zero, zero), [w.T.contiguous(), u.T.contiguous(), b, torch.zeros_like(b)], True, 1, 0.0, True, False, True)
        return torch.nn.functional.cross_entropy(dense(p, "out", h).flatten(0, 1), y.flatten())
    return bench.model_workload(options, document, words(np.random.default_rng(0), rows, times, count), jax_loss, torch_loss, adam, torch_adam, 4)
