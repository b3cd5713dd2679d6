#!/usr/bin/env python3
"""resume.py STEPC [EVERY]: compiling on from the text after any pass, or after every so manyth.

The object is the very same that one go makes, and --stop-after of that pass prints the text again. A pass that needs
another stage than a text is at says so.
"""
import glob
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import ROOT, runner

# What makes plans differ in kind: (document, flags).
RESUMED = [
    ("tests/resume/mesh.json", []),  # collectives, parts of tensors, a loop over microbatches
    ("tests/times/model.json", []),  # recurrent: loops over time that write rows
    ("tests/resume/many.json", []),  # outlined groups, tensors laid end to end
    ("tests/resume/convolution.json", ["--remat=1"]),  # taps; values that are made again
    ("tests/resume/mesh.json", ["--target=cuda", "--cuda-arch=sm_80"]),
]


def stepc(*args):
    return runner.attempt(sys.argv[1], *args)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def parallel(check, items):
    with ThreadPoolExecutor(2) as pool:
        wrong = [text for texts in pool.map(check, items) for text in texts]
    for text in wrong:
        print(text)
    print(f"{len(items)} checked, {len(wrong)} wrong")
    return 1 if wrong else 0


def resumes(job):
    document, flags = job
    with tempfile.TemporaryDirectory() as folder:
        whole = stepc("compile", f"{ROOT}/{document}", "--dump", "--dump-dir=" + folder, "--verify-each", "-o",
                      folder + "/whole.so", *flags)
        if whole.returncode:
            return [f"{document} {flags}: {whole.stderr}"]
        wrong = []
        texts = sorted(glob.glob(folder + "/*.sir"))
        for text in texts[::int(sys.argv[2]) if len(sys.argv) > 2 else 1]:
            rest = stepc("compile", text, "--verify-each", "-o", folder + "/rest.so", *flags)
            if rest.returncode or read(folder + "/whole.so") != read(folder + "/rest.so"):
                wrong.append(f"{document} {flags}: {os.path.basename(text)} makes another object\n{rest.stderr}")
            name = text[text.rindex("-") + 1:-4]
            again = stepc("compile", text, "--stop-after=" + name, "-o", folder + "/again", *flags)
            if name != "input" and (again.returncode or read(text) != read(folder + "/again")):
                wrong.append(f"{document} {flags}: {os.path.basename(text)} prints otherwise once read\n{again.stderr}")
        return wrong if len(texts) > 13 else wrong + [f"{document}: {len(texts)} texts"]


def lacking():
    wrong, tried = [], 0
    with tempfile.TemporaryDirectory() as folder:
        stepc("compile", f"{ROOT}/tests/times/model.json", "--dump", "--dump-dir=" + folder, "-o", folder + "/whole.so")
        texts = sorted(glob.glob(folder + "/*.sir"))
        after = {os.path.basename(text)[3:-4]: number for number, text in enumerate(texts)}
        for number, text in enumerate(texts):
            for name, fits in [("shard", after["accumulate"] <= number < after["shard"]),
                               ("decompose", after["shard"] <= number < after["decompose"]), ("fuse", after["decompose"] <= number < after["fuse"]),
                               ("schedule", number == after["fuse"]), ("memplan", number == after["schedule"])]:
                tried += 1
                run = stepc("compile", text, "--passes=" + name, "-o", os.devnull)
                good = run.returncode == 0 if fits else run.returncode == 1 and "E0107" in run.stderr
                if not good:
                    wrong.append(f"{os.path.basename(text)} --passes={name}: exit {run.returncode}\n{run.stderr}")
            if number > after["remat"]:  # whose plans are for the processor
                tried += 1
                run = stepc("compile", text, "--target=cuda", "-o", folder + "/other.so")
                if run.returncode != 1 or "--target=cpu" not in run.stderr:
                    wrong.append(f"{os.path.basename(text)} --target=cuda: exit {run.returncode}\n{run.stderr}")
    print("\n".join(wrong) + f"{tried} checked, {len(wrong)} wrong")
    return 1 if wrong or tried < 60 else 0


sys.exit(parallel(resumes, RESUMED) or lacking())
