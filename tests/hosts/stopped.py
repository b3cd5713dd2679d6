#!/usr/bin/env python3
"""stopped.py TRAIN STEP OTHER FOLDER: samples/shakespeare/train.cpp stopped by Ctrl-C and continued ends as it does in one piece. STEP is
an object of its model, OTHER one with other shapes."""
import os
import shutil
import signal
import subprocess
import sys

train, step, other, folder = sys.argv[1:]
text = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../samples/shakespeare/tinyshakespeare.txt")
STEPS = "600"
runs = os.path.join(folder, "shakespeare.runs")


def run(so=step, *more):
    p = subprocess.run([train, so, text, STEPS, *more], capture_output=True, text=True)
    return p.returncode, p.stdout, p.stderr


def last_of(output):
    return output[output.index("validation loss"):]


shutil.rmtree(runs, ignore_errors=True)
code, whole, _ = run()
assert code == 0, whole
for number in (signal.SIGINT, signal.SIGTERM):
    p = subprocess.Popen([train, step, text, STEPS, runs], stdout=subprocess.PIPE, text=True)
    seen = ""
    while " loss " not in seen:  # it trains
        line = p.stdout.readline()
        assert line, seen
        seen += line
    p.send_signal(number)
    seen += p.stdout.read()
    assert p.wait() == -number, (p.returncode, seen)  # whoever waits for it sees the signal
    stopped = int(seen[seen.index("stopped after step "):].split()[3])
    assert 0 < stopped < int(STEPS) and "validation" not in seen, seen
    assert os.path.isdir(os.path.join(runs, "step-%d" % stopped)), os.listdir(runs)
code, output, errors = run(step, runs)
assert code == 0 and "continued after step %d of %s" % (stopped, STEPS) in output, (output, errors)
assert last_of(output) == last_of(whole), (output, whole)
code, output, errors = run(step, runs)
assert code == 0 and "nothing is left to train" in output and last_of(output) == last_of(whole), (output, errors)
code, output, errors = run(other, runs)
assert code == 1 and "remove it to begin anew" in errors and "validation" not in output, (output, errors)
code, output, errors = run(step, os.path.join(train, "runs"))  # where nothing can be saved: said before the training is over
assert code == 1 and "validation" not in output and "runs" in errors, (output, errors)
print("stopped: continued after step %d, to the same end" % stopped)
