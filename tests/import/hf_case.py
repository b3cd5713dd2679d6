"""What tests of samples/import/hf.py share: the models that are recorded, and how they come in."""
import contextlib
import io
import json
import os
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "../../samples"), os.path.join(HERE, "../../samples/import")]
import hf
import tensors
from tool import runner

MODELS = sorted(os.listdir(os.path.join(HERE, "models")))
KNOWN = ("gpt2", "llama")  # of these the program has tables of names; hf.py writes one for any model


def run(*arguments):
    """hf.py: exit code and what it said."""
    err = io.StringIO()
    with contextlib.redirect_stderr(err):
        code = hf.main(list(arguments))
    return code, err.getvalue()


def compiled(folder):
    out = os.path.join(tempfile.mkdtemp(dir=folder), "step.so")  # a path of its own: dlopen knows objects by their paths
    # What is asked here is what the tensors mean: numbers are the same at every -O.
    runner.call(runner.Case.program, "compile", "-O0", os.path.join(folder, "model.json"), "-o", out)
    return out


def begin(m, folder):
    """Initial values, and over them the imported weights."""
    m.init()
    weights = tensors.open_model(os.path.join(folder, "init.safetensors"))
    for name in weights.names():
        m[name] = weights.array(name)


class HfCase(runner.Case):
    def copy(self, name, **changes):
        """A copy of a model with other values in its config.json."""
        to = os.path.join(self.folder, "model")
        shutil.rmtree(to, ignore_errors=True)
        shutil.copytree(os.path.join(HERE, "models", name), to)
        path = os.path.join(to, "config.json")
        with open(path) as f:
            config = json.load(f)
        config.update(changes)
        with open(path, "w") as f:
            json.dump({k: v for k, v in config.items() if v != "absent"}, f)
        return to

    def imported(self, folder, *options):
        code, said = run("import", folder, "-o", self.folder, *options)
        self.assertEqual((code, said), (0, ""))
        return compiled(self.folder)

    def equal_files(self, a, b):
        for name in sorted(n for n in os.listdir(a) if n.startswith("model") or n == "config.json"):
            if not name.endswith(".safetensors"):
                with open(os.path.join(a, name), "rb") as x, open(os.path.join(b, name), "rb") as y:
                    self.assertEqual(x.read(), y.read(), name)
        x, y = tensors.open_model(a), tensors.open_model(b)
        self.assertEqual(x.names(), y.names())
        for name in x.names():
            self.assertEqual((x.dtype(name), x.shape(name), x.array(name).tobytes()), (y.dtype(name), y.shape(name), y.array(name).tobytes()), name)
