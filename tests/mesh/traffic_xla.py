"""The programs of programs.py in JAX: how many bytes XLA's partitioner makes each device send in a step, by the collectives
of the compiled program for 8 CPU devices. traffic.py --renew runs it with a Python that has JAX and Optax; layouts are read from
the documents, shapes of parameters from stepc's report.

    traffic_xla.py < {"programs": [{"document": .., "parameters": {path: shape}}, ..]} > {name: {"ring": bytes, "temporaries": bytes, ..}}
"""
import fnmatch
import json
import math
import os
import re
import sys

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import layers_xla
import models_xla

# ---------------------------------------------------------------- layouts


def glob(pattern, path):
    """`**`: any number of segments, `*` within one, `{a,b}` either."""
    text = re.sub(r"\\\*\\\*", ".*", re.escape(pattern)).replace(r"\*", "[^.]*").replace(r"\{", "(").replace(r"\}", ")").replace(",", "|")
    return re.fullmatch(text.replace(r".*\.", r"(.*\.)?"), path) is not None


def spec_of(patterns, path):
    return next((s for p, s in (patterns or {}).items() if glob(p, path)), None)


# ---------------------------------------------------------------- layers


class Model:
    def __init__(self, params, mesh, batch="data"):
        self.p, self.mesh, self.batch = params, mesh, batch

    def hold(self, x, *spec):
        spec = [self.batch if s == "batch" else s for s in spec]
        return jax.lax.with_sharding_constraint(x, NamedSharding(self.mesh, PartitionSpec(*spec)))

    def linear(self, name, x):
        y = x @ self.p[name + ".kernel"]
        return y + self.p[name + ".bias"] if name + ".bias" in self.p else y

    def norm(self, name, x):
        mean = jnp.mean(x, -1, keepdims=True)
        var = jnp.maximum(jnp.mean(x * x, -1, keepdims=True) - mean * mean, 0)
        return (x - mean) * (jax.lax.rsqrt(var + 1e-6) * self.p[name + ".scale"]) + self.p[name + ".bias"]

    def attention(self, name, x):
        q, k, v = (jnp.einsum("btm,mhd->bthd", x, self.p["%s.%s.kernel" % (name, i)]) + self.p["%s.%s.bias" % (name, i)] for i in ("query", "key", "value"))
        w = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q / math.sqrt(q.shape[-1]), k))
        return jnp.einsum("bqhd,hdm->bqm", jnp.einsum("bhqk,bkhd->bqhd", w, v), self.p[name + ".out.kernel"]) + self.p[name + ".out.bias"]

    def block(self, name, x, split=lambda x: x):
        x = split(x + split(self.attention(name + ".attn.mha", self.norm(name + ".attn.norm", x))))
        y = self.linear(name + ".mlp.down", jax.nn.gelu(self.linear(name + ".mlp.up", self.norm(name + ".mlp.norm", x))))
        return split(x + split(y))


def square(y_hat, i):
    return jnp.mean((y_hat - i["y"])**2)


def labels(logits, i):
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits, i["labels"]))


def mlp(m, i):
    return square(m.linear("down", jax.nn.relu(m.linear("middle", jax.nn.relu(m.linear("up", i["x"]))))), i)


def megatron_mlp(m, i):
    return square(m.linear("down", jax.nn.gelu(m.linear("up", i["x"]))), i)


def megatron_attention(m, i):
    return square(m.attention("mha", i["x"]), i)


def dot_relu_dot(m, i):
    y = m.hold(jax.nn.relu(i["x"] @ m.p["w1.kernel"]), "batch", "model")
    return square(m.hold(y @ m.p["w2.kernel"], "batch", None), i)


def transformer(m, i):
    x = jnp.take(m.p["embedding.embedding"], i["tokens"], axis=0)
    for k in range(2):
        x = m.block("layers.%d" % k, x)
    return labels(m.linear("head", x) if "head.kernel" in m.p else x @ m.p["embedding.embedding"].T, i)


def two_layers(m, i):
    return square(m.linear("second", m.linear("first", i["x"])), i)


def lstm(m, i):
    def cell(carry, x):
        c, h = carry
        gi, gf, gg, go = jnp.split(x @ m.p["rnn.cell.dense_i.kernel"] + h @ m.p["rnn.cell.dense_h.kernel"] + m.p["rnn.cell.dense_h.bias"], 4, -1)
        c = jax.nn.sigmoid(gf) * c + jax.nn.sigmoid(gi) * jnp.tanh(gg)
        h = jax.nn.sigmoid(go) * jnp.tanh(c)
        return (c, h), h
    zero = jnp.zeros((i["x"].shape[0], 128))
    return square(jax.lax.scan(cell, (zero, zero), i["x"].swapaxes(0, 1))[1].swapaxes(0, 1), i)


def sequence(m, i):
    def split(x):
        return m.hold(x, "batch", "model", None)
    return square(m.block("block", split(i["x"]), split), i)


def experts(*groups, tokens=None, beside=lambda y_hat: y_hat):
    def turned(m, x):
        return x.transpose(1, 0, 2, 3) if tokens else x

    def loss(m, i):
        x = i["x"]
        gate = x @ m.p["gate.kernel"]
        chosen = jax.nn.one_hot(jnp.argmax(gate, -1), 8)
        position = jnp.cumsum(chosen, 1) * chosen
        dispatch = (chosen * (position <= 8))[..., None] * jax.nn.one_hot(position - 1, 8)
        sent = jnp.einsum("gsec,gsm->gecm" if tokens else "gsec,gsm->egcm", dispatch, x)
        sent = m.hold(turned(m, m.hold(sent, *tokens) if tokens else sent), *groups)
        hidden = jax.nn.relu(jnp.einsum("egcm,emh->egch", sent, m.p["wi"]))
        made = m.hold(jnp.einsum("egch,ehm->egcm", hidden, m.p["wo"]), *groups)
        made = m.hold(turned(m, made), *tokens) if tokens else made
        return square(beside(jnp.einsum("gsec,gecm->gsm" if tokens else "gsec,egcm->gsm", dispatch * jax.nn.softmax(gate)[..., None], made)), i)
    return loss


def vocabulary(tied):
    def loss(m, i):
        x = jnp.take(m.p["embedding.embedding"], i["tokens"], axis=0)
        x = x + m.linear("mlp.down", jax.nn.gelu(m.linear("mlp.up", m.norm("mlp.norm", x))))
        return labels(x @ m.p["embedding.embedding"].T if tied else m.linear("head", x), i)
    return loss


def convolutions(*spec):
    def loss(m, i):
        def split(x):
            return m.hold(x, *spec) if spec else x
        x = split(i["x"])
        for k in range(2):
            x = jax.lax.conv_general_dilated(x, m.p["c%d.kernel" % k], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")) + m.p["c%d.bias" % k]
            x = split(x)
            mean = jnp.mean(x, (0, 1, 2))
            var = jnp.mean(x * x, (0, 1, 2)) - mean * mean
            x = jax.nn.relu((x - mean) * (jax.lax.rsqrt(var + 1e-5) * m.p["n%d.scale" % k]) + m.p["n%d.bias" % k])
        return labels(m.linear("head", jnp.mean(x, (1, 2))), i)
    return loss


def stages(strides, pool, spec, **more):
    def loss(m, i):
        x = m.hold(i["x"], *spec)
        space = x.ndim - 2
        layout = ("NHWC", "HWIO", "NHWC") if space == 2 else ("NWC", "WIO", "NWC")
        for k in range(2):
            kernel = m.p["c%d.kernel" % k]
            padding = [((kernel.shape[0] - 1) * more["dilation"], 0)] if more else "SAME"
            x = jax.lax.conv_general_dilated(x, kernel, (strides[k],) * space, padding, rhs_dilation=(more.get("dilation", 1),) * space, dimension_numbers=layout) + m.p["c%d.bias" % k]
            x = m.hold(jax.nn.relu(x), *spec)
        if pool:
            x = m.hold(jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, *pool, 1), (1, 2, 2, 1), "SAME"), *spec)
        return jnp.mean((x - 0.3)**2)
    return loss


def u_net(m, i):
    def held(x):
        return m.hold(x, "batch", "model", None, None)

    def conv(name, x, stride=1):
        return jax.lax.conv_general_dilated(x, m.p[name + ".kernel"], (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")) + m.p[name + ".bias"]

    def on(x):
        return held(jax.nn.relu(x))
    first = on(conv("first", held(i["x"])))
    middle = on(conv("middle", on(conv("down", first, 2))))
    up = on(jax.lax.conv_transpose(middle, m.p["up.kernel"], (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")) + m.p["up.bias"])
    return square(held(conv("made", on(conv("last", jnp.concatenate((first, up), -1))))), i)


def circular(m, i):
    def held(x):
        return m.hold(x, "batch", "model", None, None)
    x = held(i["x"])
    for k in range(2):
        wrapped = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="wrap")
        x = held(jax.nn.relu(jax.lax.conv_general_dilated(wrapped, m.p["c%d.kernel" % k], (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")) + m.p["c%d.bias" % k]))
    return jnp.mean((x - 0.3)**2)


def grouped_queries(m, i):
    def rms(name, x):
        return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * m.p[name + ".scale"]
    normed = rms("normed", i["x"])
    q, k, v = (jnp.einsum("btm,mhd->bthd", normed, m.p[n + ".kernel"]) for n in ("query", "key", "value"))
    x = i["x"] + jnp.einsum("bthd,hdm->btm", jax.nn.dot_product_attention(q, k, v, is_causal=True), m.p["out.kernel"])
    inner = rms("inner", x)
    return square(x + (jax.nn.silu(inner @ m.p["gate.kernel"]) * (inner @ m.p["up.kernel"])) @ m.p["down.kernel"], i)


def shared_expert(m, i):
    def beside(y_hat):
        return y_hat + m.linear("shared_down", jax.nn.relu(m.linear("shared_up", i["x"])))
    return experts("model", "batch", beside=beside)(m, i)


def adapted(m, i):
    def lora(name, x):
        return x @ m.p[name + ".lora_a"] @ m.p[name + ".lora_b"] + m.linear(name + ".base_module", x)
    x = i["x"]
    return square(x + lora("mlp.down", jax.nn.gelu(lora("mlp.up", m.norm("mlp.norm", x)))), i)


def lstm_tensor(m, i):
    def cell(carry, x):
        c, h = carry
        gi, gf, gg, go = (x @ m.p["rnn.cell.%s.kernel" % a] + m.linear("rnn.cell." + b, h) for a, b in (("ii", "hi"), ("if_", "hf"), ("ig", "hg"), ("io", "ho")))
        c = jax.nn.sigmoid(gf) * c + jax.nn.sigmoid(gi) * jnp.tanh(gg)
        h = jax.nn.sigmoid(go) * jnp.tanh(c)
        return (c, h), h
    zero = jnp.zeros((i["x"].shape[0], 128))
    return square(jax.lax.scan(cell, (zero, zero), i["x"].swapaxes(0, 1))[1].swapaxes(0, 1), i)


def tied_sequence(m, i):
    def split(x):
        return m.hold(x, "batch", "model", None)
    x = m.block("block", split(jnp.take(m.p["embedding.embedding"], i["tokens"], axis=0)), split)
    return labels(x @ m.p["embedding.embedding"].T, i)


LOSSES = {
    "tied_fsdp": transformer, "u_net": u_net, "convolution_circular": circular, "grouped_queries": grouped_queries, "shared_expert": shared_expert, "lora_megatron": adapted, "lstm_tensor": lstm_tensor,
    "vocabulary_tied_sequence": tied_sequence,
    "data_parallel": mlp, "zero_1": mlp, "zero_2": mlp, "zero_3": transformer, "fsdp": mlp, "megatron_mlp": megatron_mlp,
    "megatron_attention": megatron_attention, "dot_relu_dot": dot_relu_dot, "transformer": transformer, "clipped": transformer, "cookbook_moments": two_layers,
    "microbatches": mlp, "lstm": lstm, "sequence": sequence, "megatron_sequence": sequence, "experts_capacity": experts("model", "batch"),
    "experts_all_to_all": experts("data", None), "expert_parallel": experts("data", None, tokens=("batch", None)), "vocabulary_embedding": vocabulary(False), "vocabulary_cross_entropy": vocabulary(False),
    "vocabulary_tied": vocabulary(True), "convolution_norm": convolutions(), "convolution_space": convolutions("batch", "model", None, None),
    "convolution_tiles": stages((2, 1), (3, 3), (None, "rows", "columns", None)), "convolution_causal": stages((1, 1), None, ("batch", "model", None), dilation=2),
    "convolution_channels": stages((1, 1), None, ("batch", None, None, "model"))}

# ---------------------------------------------------------------- a step


def optimizer_of(o):
    if o["type"] == "chain":
        return optax.chain(*map(optimizer_of, o["transforms"]))
    if o["type"] == "clip_by_global_norm":
        return optax.clip_by_global_norm(o["max_norm"])
    if o["type"] == "multi_steps":
        return optax.MultiSteps(optimizer_of(o["opt"]), o["every_k_schedule"]).gradient_transformation()
    return optax.adam(o["learning_rate"])


def compiled(document, parameters):
    mesh = Mesh(np.array(jax.devices()).reshape(list(document["mesh"]["axes"].values())), list(document["mesh"]["axes"]))
    sharding, optimizer = document["sharding"], optimizer_of(document["optimizer"])
    loss = (LOSSES | models_xla.LOSSES).get(document["name"]) or (lambda m, i: (square if "y" in i else labels)(layers_xla.layers(m, document["model"], "", i["x"]), i))
    batch = dict(sharding["rules"]).get("batch", "data")
    batch = tuple(batch) if isinstance(batch, list) else batch

    def lay(spec):
        return NamedSharding(mesh, PartitionSpec(*[batch if s == "batch" else tuple(s) if isinstance(s, list) else s for s in spec or []]))

    params = {k: jax.ShapeDtypeStruct(tuple(s), jnp.float32) for k, s in parameters.items()}
    inputs = {k: jax.ShapeDtypeStruct(tuple(i["shape"]), i["dtype"]) for k, i in document["inputs"].items()}
    trained = {k: v for k, v in params.items() if "trainable" not in document or ".lora_" in k}
    state = jax.eval_shape(optimizer.init, trained)
    of_params = {k: lay(spec_of(sharding.get("params"), k)) for k in params}

    def of_slot(path, leaf):
        name = next((k.key for k in path if isinstance(k, jax.tree_util.DictKey)), None)
        spec = spec_of(sharding.get("optimizer_state"), name) if name else None
        return lay(None) if not name else lay(spec) if spec is not None else of_params[name]
    of_state = jax.tree_util.tree_map_with_path(of_slot, state)
    size = math.prod(mesh.shape[a] for a in ((batch,) if isinstance(batch, str) else batch or ()) if a in mesh.shape)  # a batch that does not divide comes whole
    of_inputs = {k: lay([s for s in i["axes"]] if i["shape"][0] % size == 0 else []) for k, i in document["inputs"].items()}

    def gradient(p, i):
        return jax.value_and_grad(lambda q: loss(Model(p | q, mesh, batch), i))({k: p[k] for k in trained})

    def step(p, s, i):
        if "accumulate" in document:
            size = document["accumulate"]["microbatch_size"]
            parts = {k: jnp.swapaxes(v.reshape(size, -1, *v.shape[1:]), 0, 1) for k, v in i.items()}
            def one(acc, part):
                return jax.tree.map(jnp.add, acc, gradient(p, part)), None
            zero = (jnp.float32(0), jax.tree.map(jnp.zeros_like, {k: p[k] for k in trained}))
            (value, g), _ = jax.lax.scan(one, zero, parts)
            count = next(iter(parts.values())).shape[0]
            value, g = value / count, jax.tree.map(lambda x: x / count, g)
        else:
            value, g = gradient(p, i)
        changed = {k: p[k] for k in trained}
        u, s = optimizer.update(g, s, changed)
        return p | optax.apply_updates(changed, u), s, value
    held = sum(math.prod(s.shard_shape(x.shape)) * x.dtype.itemsize
               for x, s in zip(jax.tree.leaves((params, state)), jax.tree.leaves((of_params, of_state))))
    run = jax.jit(step, in_shardings=(of_params, of_state, of_inputs), out_shardings=(of_params, of_state, lay(None)), donate_argnums=(0, 1))
    return run.lower(params, state, inputs).compile(), held


# ---------------------------------------------------------------- what the program sends

WIDTH = {"pred": 1, "s8": 1, "u8": 1, "bf16": 2, "f16": 2, "s32": 4, "u32": 4, "f32": 4, "s64": 8, "u64": 8, "f64": 8}
KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")


def bytes_of(text):
    return sum(WIDTH[d] * math.prod(int(x) for x in dims.split(",") if x) for d, dims in re.findall(r"(\w+)\[([\d,]*)\]", text) if d in WIDTH)


def group_size(line):
    """[4,2]<=[8]: four groups of two; {{0,1},{2,3}}: two groups of two; mesh['a'=4,'b'=2] {'b'}: groups along b; {'a':(2)2}: along a part
    of a, of two."""
    counted, listed, mesh = (re.search(r"replica_groups=" + form, line) for form in (r"\[\d+,(\d+)\]", r"\{\{([\d,]*)\}", r"mesh\[(.*?)\] *\{(.*?)\}"))
    if counted or listed:
        return int(counted.group(1)) if counted else len(listed.group(1).split(","))
    extents = dict(re.findall(r"'(\w+)'=(\d+)", mesh.group(1)))
    return math.prod(int(part or extents[name]) for name, part in re.findall(r"'(\w+)'(?::\(\d+\)(\d+))?", mesh.group(2)))


def traffic(text):
    """Ring bytes per kind of the entry computation, bodies of loops as often as they run."""
    bodies, name, entry = {}, None, None
    for line in text.splitlines():
        start = re.match(r"(ENTRY )?%?([\w.-]+) \(.*\{$", line)
        if start:
            name = start.group(2)
            bodies[name] = []
            entry = name if start.group(1) else entry
        elif name:
            bodies[name].append(line)

    def of(name):
        sent = {}
        for line in bodies.get(name, []):
            op = re.search(r"= (\(.*?\)|\S+) ([a-z-]+)\(", line)
            kind = op and op.group(2).removesuffix("-start")
            if kind in KINDS:
                size, k = bytes_of(op.group(1)), 2 if kind == "collective-permute" else group_size(line)
                ring = {"all-reduce": 2 * size * (k - 1) / k, "all-gather": size * (k - 1) / k, "reduce-scatter": size * (k - 1),
                        "all-to-all": size * (k - 1) / k, "collective-permute": size}[kind]
                sent[kind] = sent.get(kind, 0) + ring
                sent["count"] = sent.get("count", 0) + 1
            times = re.search(r'known_trip_count":\{"n":"(\d+)"', line)
            for called in re.findall(r"(?:body|to_apply|calls)=%?([\w.-]+)", line) + [x.strip(" %") for x in re.findall(r"branch_computations=\{(.*?)\}", line) for x in x.split(",")]:
                for key, value in of(called).items():
                    sent[key] = sent.get(key, 0) + value * (int(times.group(1)) if times and kind == "while" else 1)
        return sent
    return of(entry)


def main():
    out = {}
    for program in json.load(sys.stdin)["programs"]:
        made, held = compiled(program["document"], program["parameters"])
        sent = traffic(made.as_text())
        memory = made.memory_analysis()
        out[program["document"]["name"]] = {"ring": sum(v for k, v in sent.items() if k != "count"), "collectives": sent.pop("count", 0), "kinds": sent, "temporaries": memory.temp_size_in_bytes, "state": held}
    json.dump(out, sys.stdout, indent=1, sort_keys=True)


if __name__ == "__main__":
    main()
