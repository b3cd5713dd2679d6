"""Trains samples/cookbook/model.json from Python: the Flax cookbook's toy model on one batch of random numbers, with
an exponential moving average of the weights beside them.

    python3 train.py step.so [steps]
"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import stepc


def main():
    path, steps = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 50
    random = np.random.default_rng(0)
    x, y = random.standard_normal((32, 2), np.float32), random.standard_normal((32, 8), np.float32)
    with stepc.Step(path) as m:
        m.init()
        first = m["layers.0.kernel"]
        for i in range(1, steps + 1):
            r = m.step(x=x, y=y)
            if i == 1 or i % max(1, steps // 10) == 0:
                print("step %4d  loss %.6f" % (r.step, r.loss))
        now, average = m["layers.0.kernel"], m["ema.layers.0.kernel"]
        print("loss with the weights %.6f, with their average %.6f" % (m.eval(x=x, y=y).loss, m.eval("ema", x=x, y=y).loss))
        print("layers.0.kernel[0, 0]: at first %.6f, now %.6f, average %.6f" % (first[0, 0], now[0, 0], average[0, 0]))


main()
