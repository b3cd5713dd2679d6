#!/usr/bin/env python3
"""Meshes of processes: recorded cases of the family mesh as ranks that mpirun starts, one device or several in each, have to give
the bits of one process: metrics, and all state that is saved. For every MPI that is installed (Open MPI, MPICH).

A host in C brings its own communicator; in larger programs collectives are under way while other commands run. And what cannot run together is told so.

    tests/mesh/mpi.py --stepc build/stepc [--all] [CASE...]
"""
import argparse
import concurrent.futures
import filecmp
import glob
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from mesh import programs
from tool import ROOT, comparison, recorded, runner, safetensors

FAMILIES = {"openmpi": ["--oversubscribe", "--bind-to", "none"], "mpich": []}
QUICK = ["mesh_data_parallel", "mesh_tensor_parallel", "mesh_transformer_state", "mesh_uneven_accumulate", "mesh_batch_over_both_axes"]
# On this machine alone: Open MPI looks for ssh all the same, unless it is told not to reach for others.
QUIET = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_plm="isolated",
             OMPI_MCA_btl_vader_single_copy_mechanism="none")
SKIPPED = 77


def installed(stepc):
    """Families with an mpirun and a plug-in; where there are none, says so: the test is SKIPPED."""
    folder = os.path.dirname(stepc)
    found = [f for f in FAMILIES if shutil.which("mpirun." + f) and os.path.exists(os.path.join(folder, "libstepc_mpi.%s.so" % f))]
    if not found:
        print("skipped: no MPI is installed (openmpi-bin and libopenmpi-dev, or mpich and libmpich-dev)")
    return found


def launcher(family, ranks):
    return ["mpirun." + family, *FAMILIES[family], "-n", str(ranks)]


def said(command, folder):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=folder, env=QUIET, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise RuntimeError("%s: exit %d\n%s" % (" ".join(command), done.returncode, done.stderr[-1500:]))


def devices(arguments, document):
    """How many devices a variant of a case has."""
    if arguments:
        return math.prod(int(axis.split("=")[1]) for axis in arguments[1].split(","))
    return math.prod(document["mesh"]["axes"].values())


def counts(devices, everything):
    """Numbers of ranks: one device each, two of them, half of them."""
    fit = [n for n in (2, 3, 4, 6, 8) if devices % n == 0 and n <= devices]
    return fit if everything else sorted({fit[0], fit[-1]}) if fit else []


def play(options, family, path, folder):
    """Why a case is wrong, and how many runs it was."""
    case, faults, runs = recorded.Case(path), [], 0
    variant = max(case.variants, key=lambda v: devices(v, case.document))
    folder = os.path.join(folder, family + "-" + case.name)
    model, data, init = case.unpack(folder), os.path.join(folder, "data.safetensors"), os.path.join(folder, "init.safetensors")
    try:
        said([options.stepc, "compile", model, *variant, "-q", "-o", "step.so"], folder)
        run = [options.stepc, "run", "step.so", "--steps", str(case.steps), "--data", data, "--all-state", "-q"]
        run += ["--init", init] if os.path.exists(init) else []
        said([*run, "--threads", "1", "--metrics", "0.jsonl", "--save", "0.safetensors"], folder)
        for ranks in counts(devices(variant, case.document), options.all):
            files = ["%d.jsonl" % ranks, "%d.safetensors" % ranks]
            said([*launcher(family, ranks), *run, "--transport", "mpi", "--threads", "1" if ranks != 4 else "2", "--metrics", files[0], "--save", files[1]], folder)
            runs += 1
            for ours, of_one in zip(files, ("0.jsonl", "0.safetensors")):
                if not filecmp.cmp(os.path.join(folder, ours), os.path.join(folder, of_one), shallow=False):
                    faults.append("%s %s, %d ranks of %s: %s is not that of one process" % (case.name, " ".join(variant), ranks, family, ours))
    except (RuntimeError, subprocess.TimeoutExpired) as e:
        faults.append("%s %s: %s" % (case.name, " ".join(variant), e))
    return faults, runs


def outputs(family, ranks, command, folder):
    """What every rank prints; RuntimeError if it fails."""
    script = 'exec "$0" "$@" >"said-${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"'
    said([*launcher(family, ranks), "sh", "-c", script, *command], folder)
    texts = []
    for rank in range(ranks):
        with open(os.path.join(folder, "said-%d" % rank)) as f:
            texts.append(f.read())
    return texts


def hosts(options, family, folder):
    """A host's own communicator; tensors whole and in parts; mistakes of one rank."""
    from mesh import faults
    folder, wrong = os.path.join(folder, "host-" + family), []
    os.mkdir(folder)
    faults.prepare(options, folder, [2, 4])
    said(["mpicc." + family, "-O1", "-std=gnu11", "-Wall", "-I", os.path.join(ROOT, "runtime", "include"),
          os.path.join(ROOT, "tests", "mesh", "host.c"), "-o", "host", "-lm", "-ldl"], folder)
    env = {"STEPC_PLUGIN_PATH": os.path.dirname(options.stepc)}
    for devices, ranks in ((2, 2), (4, 4), (4, 2)):
        program = ["env", *("%s=%s" % e for e in env.items()), "./host", "./save-%d.so" % devices]
        with open(os.path.join(folder, "alone"), "w") as f:
            subprocess.run([*program, "alone"], cwd=folder, stdout=f, check=True, env=QUIET)
        with open(os.path.join(folder, "alone")) as f:
            alone = f.read()
        for rank, text in enumerate(outputs(family, ranks, [*program, "ranks"], folder)):
            if text != alone:
                wrong.append("host, %d devices on %d ranks of %s: rank %d is not as one process" % (devices, ranks, family, rank))
    return wrong, 3


def resumed(options, family, folder):
    """Four ranks save, two go on, as `stepc run -n` starts them: the state of one process. Messages of 1,000 bytes at most do it, too."""
    from mesh import faults
    folder, wrong = os.path.join(folder, "resumed-" + family), []
    os.mkdir(folder)
    faults.prepare(options, folder, [4])
    said(["mpicc." + family, "-O1", "-std=gnu11", "-shared", "-fPIC", "-DSTEPC_MPI_MOST=1000", "-I", ROOT, os.path.join(ROOT, "runtime", "comm_mpi.c"),
          "-o", "libstepc_mpi.%s.so" % family], folder)
    run = [options.stepc, "run", "save-4.so", "--data", "save.safetensors", "--threads", "1", "-q"]
    said([*run, "--steps", "6", "--save", "one.safetensors", "--all-state"], folder)
    small = ["env", "STEPC_PLUGIN_PATH=" + folder]
    said([*small, *launcher(family, 4), *run, "--transport", "mpi", "--steps", "3", "--save-dir", "saved", "--save-every", "2"], folder)
    said([*launcher(family, 2), *run, "--transport", "mpi", "--steps", "6", "--save-dir", "saved", "--resume", "auto", "--save", "two.safetensors", "--all-state"], folder)
    if not filecmp.cmp(os.path.join(folder, "one.safetensors"), os.path.join(folder, "two.safetensors"), shallow=False):
        wrong.append("%s: four ranks, then two: the state is not that of one process" % family)
    return wrong, 3


def rows(options, family, folder):
    """Plain rows, shuffled, until a metric says so: four ranks take the batches of one process, and two go on with them."""
    from mesh import faults
    folder, wrong = os.path.join(folder, "rows-" + family), []
    os.mkdir(folder)
    faults.prepare(options, folder, [4])
    data = safetensors.read(os.path.join(folder, "save.safetensors"))
    safetensors.write(os.path.join(folder, "rows.safetensors"), {n: a.reshape(-1, *a.shape[2:])[:-3] for n, a in data.items()})
    run = [options.stepc, "run", "save-4.so", "--data", "rows.safetensors", "--shuffle=3", "--stop-when", "loss:min:patience=4", "--threads", "1", "-q"]
    said([*run, "--steps", "40", "--save", "one.safetensors", "--all-state"], folder)
    said([*launcher(family, 4), *run, "--transport", "mpi", "--steps", "5", "--save-dir", "saved", "--keep-best", "loss:min"], folder)
    said([*launcher(family, 2), *run, "--transport", "mpi", "--steps", "40", "--save-dir", "saved", "--resume", "auto", "--save", "two.safetensors", "--all-state"], folder)
    if not filecmp.cmp(os.path.join(folder, "one.safetensors"), os.path.join(folder, "two.safetensors"), shallow=False):
        wrong.append("%s: rows on four ranks, then two: the state is not that of one process" % family)
    return wrong, 3


LATE = """
import os, sys, time
sys.path.insert(0, %r)
import stepc, numpy as np
m = stepc.Step("save-2.so", threads=1)
m.init()
data = dict(np.load("batch.npz"))
m.step(**data)
if int(os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ["PMI_RANK"]) == 0:
    time.sleep(2.5)
    open("report-" + sys.argv[1], "w").write("whole")
"""


def late(options, family, folder):
    """One rank writes something when the others are done: they wait for it, since their launcher would end it."""
    from mesh import faults
    folder, wrong = os.path.join(folder, "late-" + family), []
    os.mkdir(folder)
    faults.prepare(options, folder, [2])
    np.savez(os.path.join(folder, "batch.npz"), **{n: a[0] for n, a in safetensors.read(os.path.join(folder, "save.safetensors")).items()})
    with open(os.path.join(folder, "late.py"), "w") as f:
        f.write(LATE % os.path.join(ROOT, "samples"))
    said(["env", "STEPC_TRANSPORT=mpi", "STEPC_PLUGIN_PATH=" + os.path.dirname(options.stepc), *launcher(family, 2), sys.executable, "late.py", family], folder)
    if not os.path.exists(os.path.join(folder, "report-" + family)):
        wrong.append("%s: what the first rank wrote after the others had ended is lost" % family)
    return wrong, 1


def advanced(path):
    """Of the sums and gathers that a worker began, how many went on while kernels ran, and how many there were."""
    with open(path, encoding="utf-8") as f:
        events = sorted((e for e in json.load(f)["traceEvents"] if e.get("cat") in ("kernel", "collective")), key=lambda e: e["ts"])
    began, on, several = None, 0, 0
    for e in events:
        if e["cat"] == "kernel" or (e["pid"], e["tid"]) != (events[0]["pid"], events[0]["tid"]):
            continue
        if e["name"].startswith("end of "):
            several, on, began = several + 1, on + bool(began), None
        else:
            began = 0 if began is None else began + 1
    return on, several


def under_way(options, family, folder):
    """Programs large enough that sums and gathers are under way while others run: the state of one process. What is under way is
    not left to its end: MPI is asked between kernels. How often that is of use depends on the machine; never is wrong."""
    folder, wrong = os.path.join(folder, "under-way-" + family), []
    os.mkdir(folder)
    draw = np.random.default_rng(0)
    for name in ("data_parallel", "zero_3", "clipped"):
        document = next(d for d in programs.PROGRAMS if d["name"] == name) | {"mesh": {"axes": {"data": 4}}}
        model, data = runner.write_json(os.path.join(folder, name + ".json"), document), os.path.join(folder, name + ".safetensors")
        safetensors.write(data, {n: (draw.integers(0, 512, [3, *t["shape"]]).astype("i4") if t["dtype"] == "int32" else
                                     draw.standard_normal([3, *t["shape"]]).astype("f4")) for n, t in document["inputs"].items()})
        said([options.stepc, "compile", model, "-q", "-o", name + ".so"], folder)
        report = json.loads(runner.call(options.stepc, "explain", os.path.join(folder, name + ".so"), "--comm", "--json"))
        if not any("until" in c for e in report["entries"] if e["name"] == "step" for c in e["collectives"]):
            wrong.append("%s: nothing is under way while others run" % name)
        run = [options.stepc, "run", name + ".so", "--steps", "3", "--data", data, "--all-state", "-q"]
        said([*run, "--threads", "1", "--save", "one.safetensors"], folder)
        for ranks, threads in ((2, 1), (4, 2)):
            said([*launcher(family, ranks), *run, "--transport", "mpi", "--threads", str(threads), "--save", "ranks.safetensors"], folder)
            if not filecmp.cmp(os.path.join(folder, "one.safetensors"), os.path.join(folder, "ranks.safetensors"), shallow=False):
                wrong.append("%s, %d ranks of %s: the state is not that of one process" % (name, ranks, family))
    said([*launcher(family, 2), *run, "--steps", "20", "--save", "traced.safetensors", "--transport", "mpi", "--threads", "1", "--trace", "trace.json"], folder)
    on, several = advanced(os.path.join(folder, "trace.json"))
    return wrong + ([] if on else ["%s: of %d sums under way none went on between kernels" % (family, several)]), 7


def slow(options, family, folder):
    """Files that take the first rank longer than the others may wait for it, as on a disk far away: pipes that are read late, and old checkpoints that are removed slowly."""
    from mesh import faults
    folder, wrong = os.path.join(folder, "slow-" + family), []
    os.mkdir(folder)
    faults.prepare(options, folder, [2])
    subprocess.run(["cc", "-shared", "-fPIC", os.path.join(ROOT, "tests", "mesh", "late.c"), "-o", os.path.join(folder, "late.so")], check=True)
    run = [*launcher(family, 2), options.stepc, "run", "save-2.so", "--steps", "2", "--data", "save.safetensors", "--transport", "mpi", "-q"]
    said([*run, "--save", "state.safetensors", "--infer", "outputs.safetensors"], folder)
    for name in ("state", "outputs"):
        os.mkfifo(os.path.join(folder, name))
    reader = subprocess.Popen(["sh", "-c", "sleep 5; cat <state >state.got; sleep 5; exec cat <outputs >outputs.got"], cwd=folder)
    late = dict(QUIET, LD_PRELOAD=os.path.join(folder, "late.so"), LATE_SECONDS="5")
    done = subprocess.run([*run, "--timeout", "3", "--save", "state", "--save-dir", "runs", "--save-every", "1", "--keep", "latest=1", "--infer", "outputs"], capture_output=True, text=True, timeout=120, cwd=folder, env=late,
                          stdin=subprocess.DEVNULL)
    if done.returncode:
        reader.kill()
        wrong.append("%s: what the first rank is late with ends the run: exit %d\n%s" % (family, done.returncode, done.stderr[-800:]))
    elif sorted(os.listdir(os.path.join(folder, "runs"))) != ["latest", "step-2"]:
        wrong.append("%s: there is %s" % (family, os.listdir(os.path.join(folder, "runs"))))
    reader.wait()
    for name in ("state", "outputs") if not wrong else ():
        try:
            comparison.same_bits(name, *(safetensors.raw(os.path.join(folder, name + end)) for end in (".got", ".safetensors")))
        except comparison.Differs as why:
            wrong.append("%s, into a pipe that is read late: %s" % (family, why))
    return wrong, 2


def refused(options, family, folder):
    """What cannot run together says so on one line, and ends with code 3."""
    from mesh import faults
    folder, wrong, table = os.path.join(folder, "refused-" + family), [], []
    os.mkdir(folder)
    faults.prepare(options, folder, [1, 2, 4])
    run = [options.stepc, "run", "--steps", "1", "--data", "save.safetensors", "--transport", "mpi", "--timeout", "5", "-q"]
    table.append((launcher(family, 3) + run + ["save-4.so"], "a mesh of 4 devices cannot be split evenly over 3 processes"))
    table.append((launcher(family, 2) + run + ["save-1.so"], "compile --mesh data=N"))
    table.append((launcher(family, 1) + run + ["save-2.so", ":", "-n", "1"] + run + ["save-4.so"], "runs another object (lost, mesh data=4) than rank 0 (lost, mesh data=2)"))
    table.append((run + ["save-2.so", "-n", "0"], "at least one rank"))
    table.append((["env", "SLURM_STEP_NUM_TASKS=2"] + run + ["save-2.so"], "srun needs --mpi=pmix for Open MPI, --mpi=pmi2 for MPICH"))
    other = [f for f in FAMILIES if f != family][0]
    if other in installed(options.stepc):
        plug = os.path.join(folder, "libstepc_mpi.%s.so" % family)
        os.symlink(os.path.join(os.path.dirname(options.stepc), "libstepc_mpi.%s.so" % other), plug)
        table.append((["env", "STEPC_PLUGIN_PATH=" + folder] + launcher(family, 2) + run + ["save-2.so"], "finds itself alone"))
    for command, words in table:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=folder, env=QUIET, stdin=subprocess.DEVNULL)
        lines = [line for line in done.stderr.splitlines() if words in line]
        if not lines or done.returncode not in (2, 3):
            wrong.append("%s: exit %d, without %r\n%s" % (" ".join(command), done.returncode, words, done.stderr[-800:]))
    return wrong, len(table)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--stepc", default="build/stepc", type=os.path.abspath)
    p.add_argument("--all", action="store_true", help="all cases and numbers of ranks")
    p.add_argument("cases", nargs="*")
    options = p.parse_args()
    families = installed(options.stepc)
    if not families:
        return SKIPPED
    paths = [path[:-5] for path in sorted(glob.glob(os.path.join(recorded.CASES, "mesh", "*.json")))]
    wanted = options.cases or ([] if options.all else QUICK)
    paths = [path for path in paths if not wanted or os.path.basename(path) in wanted]
    with tempfile.TemporaryDirectory(prefix="stepc-mpi-") as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(play, options, family, path, folder) for family in families for path in paths]
        jobs += [pool.submit(what, options, family, folder) for family in families for what in (hosts, resumed, rows, late, under_way, slow, refused) if not options.cases]
        results = [job.result() for job in jobs]
    faults = [why for result in results for why in result[0]]
    print("\n".join(faults + ["%d runs by %s, %d wrong" % (sum(r[1] for r in results), " and ".join(families), len(faults))]))
    return 1 if faults or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
