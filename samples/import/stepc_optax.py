"""Optax that remembers: `import stepc_optax as optax`, and every transformation and schedule that is made carries the object of a
stepc document (`.document`). They work as before; a closure does not tell its arguments, so they are noted where they are given.
"""
import inspect
import re

import jax
import numpy as np
import optax as _optax

from jaxpr_text import NotCovered, Text


NORMS = [_optax.global_norm] + [norm for norm in (getattr(getattr(_optax, "tree", None), "norm", None),) if norm is not None]


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
    """What is known when there is a model: a function of its parameters."""

    def __init__(self, function):
        self.function = function


def settled(document, params):
    """The document with what is known of these parameters."""
    if isinstance(document, OfParameters):
        return document.function(params)
    if isinstance(document, dict):
        return {k: settled(v, params) for k, v in document.items()}
    return [settled(v, params) for v in document] if isinstance(document, list) else document


def _per_parameter(where, tree, read, is_leaf=None):
    """{path: read(value)} for every parameter. The tree, or the function that makes it, has values where Optax wants them: for a
    parameter or, as a prefix does, for all that lie below."""
    def of(params):
        found = tree(params) if callable(tree) and not (is_leaf and is_leaf(tree)) else tree
        values = {path_of(keys): value for keys, value in jax.tree_util.tree_flatten_with_path(found, is_leaf=is_leaf)[0]}
        paths, out = [path_of(keys) for keys, _ in jax.tree_util.tree_flatten_with_path(params)[0]], {}
        inside = lambda path, prefix: prefix in ("", path) or path.startswith(prefix + ".")
        for prefix in values:
            if not any(inside(path, prefix) for path in paths):
                raise NotCovered("%s: there is no parameter \"%s\"" % (where, prefix))
        for path in paths:
            prefixes = [prefix for prefix in values if inside(path, prefix)]
            if not prefixes:
                raise NotCovered("%s says nothing of the parameter \"%s\"" % (where, path))
            out[path] = read(values[prefixes[0]])
        return out
    return of


def _mask(where, mask):
    """Patterns of the parameters that are in."""
    def flag(value):
        if not isinstance(value, (bool, np.bool_)) and not (isinstance(value, (np.ndarray, jax.Array)) and value.shape == () and value.dtype == bool):
            raise NotCovered("%s is no tree of True and False" % where)
        return bool(value)
    if isinstance(mask, (bool, np.bool_)):
        return ["**"] if mask else []
    of = _per_parameter(where, mask, flag)
    return OfParameters(lambda params: [path for path, there in of(params).items() if there])


def _labels(where, labels):
    def name(value):
        if not isinstance(value, str):
            raise NotCovered("%s is no tree of names" % where)
        return value
    return OfParameters(_per_parameter(where, labels, name))


def _dimension_numbers(where, tree):
    """Muon's and GaLore's, per parameter."""
    def spec(value):
        return value is None or hasattr(value, "reduction_axis") or hasattr(value, "_asdict")
    def fields(value):
        if not spec(value):
            raise NotCovered("%s is no tree of dimension numbers" % where)
        return value if value is None else {k: _value(where, x) for k, x in value._asdict().items()}
    if spec(tree):
        return {"**": fields(tree)}
    return OfParameters(_per_parameter(where, tree, fields, spec))


# Functions of scalars become expressions over these names.
SCALAR_FUNCTIONS = {"every_k_schedule": ("gradient_step", np.int32), "should_transform_fn": ("step", np.int32),
                    "should_update_fn": ("step", np.int32), "clip_value_fn": ("x", np.float32)}


def _expression(where, function, name, dtype):
    try:
        closed = jax.make_jaxpr(function)(jax.ShapeDtypeStruct((), dtype))
        [text] = Text().walk(closed.jaxpr, closed.consts, [name])
    except Exception as e:
        raise NotCovered("%s: %s" % (where, e)) from e
    return text


def _measure(where, measure):
    if getattr(measure, "document", {}).get("type") == "measure_with_ema":
        return measure.document
    if getattr(measure, "factory", measure) not in NORMS:
        raise NotCovered("%s: of functions, global_norm alone can be told" % where)
    return "global_norm(updates)"


def _rule(where, function):
    """What multi_steps skips."""
    inner = getattr(function, "func", function)
    inner = getattr(inner, "factory", inner)
    if inner not in (_optax.skip_not_finite, _optax.skip_large_updates) or getattr(function, "args", ()):
        raise NotCovered("%s is a function; a document cannot hold it" % where)
    return {"type": inner.__name__, **{k: _value(where, v) for k, v in getattr(function, "keywords", {}).items()}}


def _seed(where, key):
    """The seed of a key that jax.random.key or PRNGKey made."""
    typed = jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key)
    words = np.asarray(jax.random.key_data(key) if typed else key)
    if words.shape != (2,) or words.dtype != np.uint32 or words[0] or typed and str(jax.random.key_impl(key)) not in ("fry", "threefry2x32"):
        raise NotCovered("%s is no key that jax.random.key(seed) makes by default, with a seed below 2**32" % where)
    return int(words[1])


def _value(where, value):
    if isinstance(getattr(value, "document", None), dict):
        return value.document
    if isinstance(value, (jax.Array, np.ndarray)) and (jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key) or value.shape == (2,) and value.dtype == np.uint32):
        return _seed(where, value)
    if isinstance(value, (np.generic, np.ndarray, jax.Array)) and np.ndim(value) == 0:
        value = np.asarray(value).item()
    if isinstance(value, float) and not np.isfinite(value):
        raise NotCovered("%s is %r; a document cannot hold it" % (where, value))
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, _optax.GradientTransformation):
        raise NotCovered("%s was made by Optax itself; make it by stepc_optax" % where)
    if isinstance(value, (list, tuple)):
        return [_value("%s[%d]" % (where, i), v) for i, v in enumerate(value)]
    if isinstance(value, dict):
        return {str(k): _value("%s[%r]" % (where, k), v) for k, v in value.items()}
    if isinstance(value, (np.dtype, type)):
        try:
            return np.dtype(value).name
        except TypeError:
            pass
    raise NotCovered("%s is %s; a document cannot hold it" % (where, "a function" if callable(value) else "a " + type(value).__name__))


def _step(where, key):
    if int(key) != key:
        raise NotCovered("%s: %r is no step" % (where, key))
    return str(int(key))


# A key was made of this seed before there was an argument for the key.
SEEDED = ("add_noise", "noisy_sgd", "differentially_private_aggregate")


# The first version of Optax in which these compute what the document says.
CHANGED = {name: (0, 2, 4) for name in ("adabelief", "scale_by_belief", "lbfgs", "scale_by_lbfgs", "optimistic_gradient_descent", "scale_by_optimistic_gradient",
                                        "schedule_free", "schedule_free_sgd", "schedule_free_adamw")}
CHANGED["dog"] = (0, 2, 6)
VERSION = tuple(int(part) for part in re.findall(r"\d+", _optax.__version__)[:3])


def _object(name, factory, args, kwargs):
    if VERSION < CHANGED.get(name, ()):
        raise NotCovered("optax.%s of Optax %s is another one than that of %d.%d.%d, which is covered" % (name, _optax.__version__, *CHANGED[name]))
    try:
        return _told(name, factory, args, kwargs)
    except NotCovered:
        raise
    except Exception as e:
        raise NotCovered("optax.%s: %s: %s" % (name, type(e).__name__, e)) from e


def _told(name, factory, args, kwargs):
    signature = inspect.signature(factory)
    bound = signature.bind(*args, **kwargs).arguments
    where = lambda key: "optax.%s: %s" % (name, key)
    out = {"type": snake(name)}
    if name == "with_extra_args_support":
        return _value(where("tx"), bound["tx"])
    if name in ("chain", "named_chain"):
        parts = args
        out["transforms"] = {k: _value(where(k), v) for k, v in parts} if name == "named_chain" else [_value(where(i), v) for i, v in enumerate(parts)]
        return out
    if name in ("partition", "multi_transform"):
        out = {"type": "partition", "transforms": _value(where("transforms"), bound.pop("transforms")),
               "labels": _labels(where("param_labels"), bound.pop("param_labels"))}
    for key, value in bound.items():
        kind = signature.parameters[key].kind
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
            out[key] = _expression(where(key), value, *SCALAR_FUNCTIONS[key])
        elif key == "should_skip_update_fn" and value is not None:
            out[key] = _rule(where(key), value)
        elif key == "boundaries_and_scales" and value is not None:
            out[key] = {_step(where(key), k): _value(where(key), v) for k, v in value.items()}
        elif name == "MultiSteps" and key == "use_grad_mean" and value is True:
            pass
        else:
            key = "key" if key == "seed" and name in SEEDED and value is not None else key
            if key in out:
                raise NotCovered("%s and a seed" % where(key))
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
    if name in ("inject_hyperparams", "inject_stateful_hyperparams"):
        return _inject(name)
    if inspect.isclass(thing) and name != "MultiSteps" or not callable(thing):
        return thing

    def make(*args, **kwargs):
        result = thing(*args, **kwargs)
        if isinstance(result, _optax.GradientTransformation):
            return _recorded(result, lambda: _object(name, thing, args, kwargs))
        if name == "MultiSteps":
            out = _recorded(result.gradient_transformation(), lambda: _object(name, thing, args, kwargs))
            out.gradient_transformation, out.has_updated = lambda: out, result.has_updated  # what Optax's class has besides
            return out
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


def _inject(name):
    def inject(inner_factory, static_args=(), hyperparam_dtype=None):
        original = getattr(inner_factory, "factory", None)
        if original is None or getattr(inner_factory, "__module__", None) != __name__:
            raise NotCovered("optax.%s of a function that is no optimizer of stepc_optax" % name)

        def make(*args, **kwargs):
            result = getattr(_optax, name)(original, static_args, hyperparam_dtype)(*args, **kwargs)
            made = inner_factory(*args, **kwargs)
            document = {"type": "inject_hyperparams", "opt": made.document}
            if static_args:
                document["static_args"] = [static_args] if isinstance(static_args, str) else list(static_args)
            if hyperparam_dtype is not None:
                document["hyperparam_dtype"] = np.dtype(hyperparam_dtype).name
            return _recorded(result, lambda: document)

        return make

    return inject


def __getattr__(name):
    return _wrap(name, getattr(_optax, name))
