"""`pip install .` into a virtual environment of its own, offline, and a training there from a folder elsewhere; skipped with a word
where scikit-build-core is not installed for the Python that is asked. wheel.py FOLDER ROOT"""
import os
import shutil
import subprocess
import sys

folder, root = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
try:
    import scikit_build_core  # noqa: F401
    import pip  # noqa: F401
except ImportError as e:
    print("skipped: no wheel is built: %s" % e)
    sys.exit(0)
shutil.rmtree(folder, ignore_errors=True)
os.makedirs(folder)
subprocess.run([sys.executable, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps", "--no-index", "-w", folder, root], check=True)
wheel, = [os.path.join(folder, n) for n in os.listdir(folder) if n.endswith(".whl")]
env = os.path.join(folder, "env")
subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", env], check=True)
python = os.path.join(env, "bin/python")
import numpy
there = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(numpy.__file__))}
there.pop("STEPC", None)
subprocess.run([python, "-m", "pip", "install", "-q", "--no-deps", "--no-index", wheel], check=True, env=there)
program = """
import json, os, numpy as np, stepc
assert stepc.__file__.startswith(%r), stepc.__file__
assert os.path.exists(os.path.join(os.path.dirname(stepc.__file__), "py.typed"))
document = json.load(open(%r))
with stepc.compile(document, constants={"batch": 8}, threads=1) as m:
    m.init()
    given = {"image": np.random.default_rng(0).random((8, 64)), "digit": np.arange(8)}
    losses = [m.step(**given).loss for _ in range(30)]
    assert losses[-1] < losses[0] / 2, losses
try:
    stepc.compile({"stepc": 1, "inpts": {}})
    raise AssertionError("not refused")
except stepc.StepError as e:
    assert "E0102" in str(e), e
print("wheel: %%.3f to %%.3f" %% (losses[0], losses[-1]))
""" % (env, os.path.join(root, "samples/digits/model.json"))
subprocess.run([python, "-c", program], check=True, cwd=folder, env=there)
subprocess.run([os.path.join(env, "bin/stepc"), "--version"], check=True, cwd=folder, env=there, stdout=subprocess.DEVNULL)
