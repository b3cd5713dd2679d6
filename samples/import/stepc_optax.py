"""Optax that remembers: `import stepc_optax as optax`, and every transformation and schedule that is made carries the object of a
stepc document (`.document`). They work as before; a closure does not tell its arguments, so they are noted where they are given.
"""
import inspect
import re

import jax
import numpy as np
import optax as _optax

from jaxpr_text import NotCovered, Text


class Recorded(_optax.GradientTransformationExtraArgs):
    """A transformation with its object."""


class RecordedSchedule:
    def __init__(self, function, document):
        self.function, self.document = function, document

    def __call__(self, count):
        return self.function(count)


def snake(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower() if re.search("[a-z]", name) else name.lower()


def path_of(keys):
    return ".".join(str(getattr(k, "key", getattr(k, "name", getattr(k, "idx", k)))) for k in keys if not (hasattr(k, "name") and k.name == "value"))


class OfParameters:
    """A function of the parameters, which are not known before there is a model."""

    def __init__(self, function, then):
        self.function, self.then = function, then


def settled(document, params):
    """The document with what functions say of these parameters."""
    if isinstance(document, OfParameters):
        return document.then(document.function(params))
    if isinstance(document, dict):
        return {k: settled(v, params) for k, v in document.items()}
    return [settled(v, params) for v in document] if isinstance(document, list) else document


def _mask(where, mask):
    """Patterns of the parameters that are in."""
    if callable(mask):
        return OfParameters(mask, lambda tree: _mask(where, tree))
    if isinstance(mask, bool):
        return ["**"] if mask else []
    leaves = jax.tree_util.tree_flatten_with_path(mask)[0]
    if not all(isinstance(leaf, (bool, np.bool_)) for _, leaf in leaves):
        raise NotCovered("%s is no tree of True and False" % where)
    return [path_of(keys) for keys, leaf in leaves if leaf]


def _labels(where, labels):
    if callable(labels):
        return OfParameters(labels, lambda tree: _labels(where, tree))
    leaves = jax.tree_util.tree_flatten_with_path(labels)[0]
    if not all(isinstance(leaf, str) for _, leaf in leaves):
        raise NotCovered("%s is no tree of names" % where)
    return {path_of(keys): leaf for keys, leaf in leaves}


def _dimension_numbers(where, tree):
    """Muon's and GaLore's, per parameter."""
    if callable(tree):
        return OfParameters(tree, lambda found: _dimension_numbers(where, found))
    spec = lambda v: v is None or hasattr(v, "reduction_axis")
    if spec(tree):
        tree = {"**": tree}
    leaves = jax.tree_util.tree_flatten_with_path(tree, is_leaf=spec)[0]
    return {path_of(keys): v if v is None else {k: _value(where, x) for k, x in v._asdict().items()} for keys, v in leaves}


# Functions of scalars become expressions over these names.
SCALAR_FUNCTIONS = {"every_k_schedule": ("gradient_step",), "should_transform_fn": ("step",), "should_update_fn": ("step",), "clip_value_fn": ("x",)}


def _expression(where, function, names):
    counter = jax.ShapeDtypeStruct((), np.int32)
    try:
        closed = jax.make_jaxpr(function)(*[counter] * len(names))
        [text] = Text().walk(closed.jaxpr, closed.consts, list(names))
    except NotCovered as e:
        raise NotCovered("%s: %s" % (where, e))
    return text


def _measure(where, function):
    if getattr(function, "factory", function) not in (_optax.global_norm, _optax.tree.norm):
        raise NotCovered("%s: of functions, global_norm alone can be told" % where)
    return "global_norm(updates)"


def _rule(where, function):
    """What multi_steps skips."""
    keywords = getattr(function, "keywords", {})
    name = getattr(getattr(function, "func", function), "__name__", "")
    if name not in ("skip_not_finite", "skip_large_updates"):
        raise NotCovered("%s is a function; a document cannot hold it" % where)
    return {"type": name, **{k: _value(where, v) for k, v in keywords.items()}}


def _seed(value):
    """The seed of a key that was made by jax.random.key or PRNGKey; None: it is no such key."""
    if not isinstance(value, jax.Array):
        return None
    words = np.asarray(jax.random.key_data(value) if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key) else value)
    return int(words[1]) if words.shape == (2,) and words.dtype == np.uint32 and words[0] == 0 else None


def _value(where, value):
    if hasattr(value, "document"):
        return value.document
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if _seed(value) is not None:
        return _seed(value)
    if isinstance(value, (np.generic, np.ndarray, jax.Array)) and np.ndim(value) == 0:
        return np.asarray(value).item()
    if isinstance(value, _optax.GradientTransformation):
        raise NotCovered("%s was made by Optax itself; make it by stepc_optax" % where)
    if isinstance(value, (list, tuple)):
        return [_value("%s[%d]" % (where, i), v) for i, v in enumerate(value)]
    if isinstance(value, dict):
        return {str(k): _value("%s[%r]" % (where, k), v) for k, v in value.items()}
    try:
        return np.dtype(value).name
    except TypeError:
        pass
    raise NotCovered("%s is %s; a document cannot hold it" % (where, "a function" if callable(value) else "a " + type(value).__name__))


def _object(name, factory, args, kwargs):
    bound = inspect.signature(factory).bind(*args, **kwargs).arguments
    where = lambda key: "optax.%s: %s" % (name, key)
    out = {"type": snake(name)}
    if name in ("chain", "named_chain"):
        parts = args
        out["transforms"] = {k: _value(where(k), v) for k, v in parts} if name == "named_chain" else [_value(where(i), v) for i, v in enumerate(parts)]
        return out
    if name in ("partition", "multi_transform"):
        return {"type": "partition", "transforms": _value(where("transforms"), bound["transforms"]),
                "labels": _labels(where("param_labels"), bound["param_labels"])}
    for key, value in bound.items():
        kind = inspect.signature(factory).parameters[key].kind
        if kind == inspect.Parameter.VAR_KEYWORD:
            out.update({k: _value(where(k), v) for k, v in value.items()})
        elif kind == inspect.Parameter.VAR_POSITIONAL:
            raise NotCovered("optax.%s: positional arguments beyond the named ones" % name)
        elif key == "freeze_mask" and callable(value):
            raise NotCovered("%s is a function; Optax takes a tree here" % where(key))
        elif key in ("measure", "measures"):
            out[key] = {k: _measure(where(key), v) for k, v in value.items()} if key == "measures" else _measure(where(key), value)
        elif key.endswith("mask") and value is not None:
            out[key] = _mask(where(key), value)
        elif key.endswith("dimension_numbers") and value is not None:
            out[key] = _dimension_numbers(where(key), value)
        elif key in SCALAR_FUNCTIONS and callable(value) and not hasattr(value, "document"):
            out[key] = _expression(where(key), value, SCALAR_FUNCTIONS[key])
        elif key == "should_skip_update_fn" and value is not None:
            out[key] = _rule(where(key), value)
        elif key == "boundaries_and_scales" and value is not None:
            out[key] = {str(int(k)): _value(where(key), v) for k, v in value.items()}
        elif name == "MultiSteps" and key == "use_grad_mean" and value is True:
            pass
        else:
            out[key] = _value(where(key), value)
    return out


class _Namespace:
    """Optax's names; what they make remembers how it was made."""

    def __init__(self, module):
        self._module = module

    def __getattr__(self, name):
        return _wrap(name, getattr(self._module, name))


def _wrap(name, thing):
    if name in ("contrib", "schedules", "transforms"):
        return _Namespace(thing)
    if name == "inject_hyperparams":
        return _inject
    if inspect.isclass(thing) and name != "MultiSteps" or not callable(thing):
        return thing

    def make(*args, **kwargs):
        result = thing(*args, **kwargs)
        if isinstance(result, _optax.GradientTransformation):
            return _recorded(result, lambda: _object(name, thing, args, kwargs))
        if name == "MultiSteps":
            return _recorded(result.gradient_transformation(), lambda: _object(name, thing, args, kwargs))
        if inspect.isfunction(result) and ("schedule" in name or "decay" in name):
            return RecordedSchedule(result, _object(name, thing, args, kwargs))
        return result

    make.factory = thing
    make.__name__, make.__doc__ = name, thing.__doc__
    return make


def _recorded(transformation, document):
    out = Recorded(transformation.init, _optax.with_extra_args_support(transformation).update)
    out.document = document()
    return out


def _inject(factory, static_args=(), hyperparam_dtype=None):
    original = getattr(factory, "factory", factory)

    def make(*args, **kwargs):
        result = _optax.inject_hyperparams(original, static_args, hyperparam_dtype)(*args, **kwargs)
        document = {"type": "inject_hyperparams", "opt": factory(*args, **kwargs).document}
        if static_args:
            document["static_args"] = [static_args] if isinstance(static_args, str) else list(static_args)
        if hyperparam_dtype is not None:
            document["hyperparam_dtype"] = np.dtype(hyperparam_dtype).name
        return _recorded(result, lambda: document)

    return make


def __getattr__(name):
    return _wrap(name, getattr(_optax, name))
