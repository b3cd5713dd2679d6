"""Optax that remembers: `import stepc_optax as optax`, and every transformation and schedule that is made carries the object of a
stepc document (`.document`). They work as before; a closure does not tell its arguments, so they are noted where they are given.
"""
import inspect
import re

import jax
import numpy as np
import optax as _optax


class NotCovered(Exception):
    """What has no spelling in a document, or none that can be seen from Python."""


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


def _mask(where, mask):
    """Patterns of the parameters that are in."""
    if callable(mask):
        raise NotCovered("%s is a function; give the tree that it returns" % where)
    if isinstance(mask, bool):
        return ["**"] if mask else []
    leaves = jax.tree_util.tree_flatten_with_path(mask)[0]
    if not all(isinstance(leaf, (bool, np.bool_)) for _, leaf in leaves):
        raise NotCovered("%s is no tree of True and False" % where)
    return [path_of(keys) for keys, leaf in leaves if leaf]


def _labels(where, labels):
    if callable(labels):
        raise NotCovered("%s is a function; give the tree that it returns" % where)
    leaves = jax.tree_util.tree_flatten_with_path(labels)[0]
    if not all(isinstance(leaf, str) for _, leaf in leaves):
        raise NotCovered("%s is no tree of names" % where)
    return {path_of(keys): leaf for keys, leaf in leaves}


def _value(where, value):
    if hasattr(value, "document"):
        return value.document
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
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
        elif key in ("mask", "weight_decay_mask") and value is not None:
            out[key] = _mask(where(key), value)
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
    if hyperparam_dtype is not None:
        raise NotCovered("optax.inject_hyperparams: hyperparam_dtype")
    original = getattr(factory, "factory", factory)

    def make(*args, **kwargs):
        result = _optax.inject_hyperparams(original, static_args)(*args, **kwargs)
        document = {"type": "inject_hyperparams", "opt": factory(*args, **kwargs).document}
        if static_args:
            document["static_args"] = [static_args] if isinstance(static_args, str) else list(static_args)
        return _recorded(result, lambda: document)

    return make


def __getattr__(name):
    return _wrap(name, getattr(_optax, name))
