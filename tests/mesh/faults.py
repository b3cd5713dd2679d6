#!/usr/bin/env python3
"""A rank that is killed, crashes, ends, is told to stop or is stopped while a mesh of processes trains, or that a cut link keeps from the others: every
other one is gone within the time-out and 2 s, says whom it waited for, and the job ends with code 3, if `stepc run -n` started it. The fault comes at a
random moment of a step that mostly computes, mostly sends, mostly updates or mostly saves; from what was saved fewer ranks go on.

    tests/mesh/faults.py --stepc build/stepc [--all] [--ledger FILE]
"""
import argparse
import datetime
import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
import numpy as np
from tool import ROOT, safetensors
from mesh import mpi, networks

TIMEOUT = 2
FAULTS = {"killed": signal.SIGKILL, "crashed": signal.SIGSEGV, "stopped": signal.SIGSTOP, "told to stop": signal.SIGTERM, "ended": signal.SIGUSR2,
          "cut off": None}
# What a step spends its time with: rows, width, optimizer.
PHASES = {"forward": (960, 256, {"type": "sgd", "learning_rate": 1e-3}), "collective": (24, 2048, {"type": "sgd", "learning_rate": 1e-3}),
          "update": (24, 256, {"type": "muon", "learning_rate": 1e-3}), "save": (22, 510, {"type": "adam", "learning_rate": 1e-3})}


def document(rows, width, optimizer):
    layers = [{"type": "linear", "in_features": 64, "features": width}, {"type": "gelu"}, {"type": "linear", "in_features": width, "features": width},
              {"type": "gelu"}, {"type": "linear", "in_features": width, "features": 8}]
    return {"stepc": 1, "name": "lost", "inputs": {"x": {"shape": [rows, 64], "dtype": "float32"}, "y": {"shape": [rows, 8], "dtype": "float32"}},
            "model": {"type": "sequential", "input": "x", "layers": layers}, "loss": "mean((model - y)**2)", "optimizer": optimizer,
            "sharding": {"inputs": {"x": ["data", None], "y": ["data", None]}, "optimizer_state": {"**": ["data"]}}}


def ranks_of(job):
    """Processes of `stepc run` under the launcher, by their rank."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/environ" % pid, "rb") as f:
                env = dict(e.split(b"=", 1) for e in f.read().split(b"\0") if b"=" in e)
            with open("/proc/%s/cmdline" % pid, "rb") as f:
                command = f.read().split(b"\0")
        except OSError:
            continue
        if env.get(b"STEPC_TEST_JOB") == job.encode() and any(c.startswith(b"--transport") for c in command) and command[1] == b"run":
            rank = env.get(b"OMPI_COMM_WORLD_RANK") or env.get(b"PMI_RANK")
            if rank:
                found[int(rank)] = int(pid)
    return found


def alive(pid):
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def command(options, hosts, family, ranks, phase, folder, job, by_stepc):
    run = [options.stepc, "run", "%s-%d.so" % (phase, ranks), "--steps", "1000000", "--data", phase + ".safetensors", "--threads", "1",
           "--timeout", str(TIMEOUT), "-q", "--metrics", "metrics-%s.jsonl" % job]
    run += ["--save-dir", "saved-" + job, "--save-every", "1"] if phase == "save" else []
    if hosts:
        return [*hosts.launcher(family, ranks), *run, "--transport", "mpi"]
    return [*run, "-n", str(ranks)] if by_stepc else [*mpi.launcher(family, ranks), *run, "--transport", "mpi"]


def goes_on(options, family, ranks, folder, job):
    """What was saved is whole, and one rank less goes on with it."""
    saved = "saved-" + job
    try:
        listed = subprocess.run([options.stepc, "checkpoint", "ls", saved, "--json"], capture_output=True, text=True, cwd=folder, check=True)
        steps = [kept["step"] for kept in json.loads(listed.stdout)["checkpoints"] if kept["complete"]]
        if not steps:
            return None  # the fault came before the first one was whole
        mpi.said([options.stepc, "checkpoint", "verify", saved], folder)
        run = [options.stepc, "run", "save-%d.so" % (ranks - 1), "--steps", str(max(steps) + 2), "--data", "save.safetensors", "--threads", "1", "-q",
               "--resume", "auto", "--save-dir", saved]
        mpi.said([*mpi.launcher(family, ranks - 1), *run, "--transport", "mpi"] if ranks > 2 else run, folder)
    except (RuntimeError, subprocess.CalledProcessError) as e:
        return "%s %s" % (e, getattr(e, "stderr", ""))
    return None


def play(options, family, ranks, fault, phase, seed, folder, hosts=None):
    """Why it is wrong, None: it is not."""
    draw, job = random.Random(seed), "%d-%d" % (os.getpid(), seed)
    by_stepc = not hosts and (draw.random() < 0.5 or (fault, family) == ("ended", "mpich"))  # whose mpirun takes that for success
    env = dict(mpi.QUIET, STEPC_TEST_JOB=job, LD_PRELOAD=os.path.join(folder, "ended.so"), PATH="%s:%s" % (os.path.join(folder, family), os.environ["PATH"]))
    if hosts:
        del env["OMPI_MCA_plm"]
        env.update(UCX_TLS="tcp,self", UCX_NET_DEVICES="link0")
    with open(os.path.join(folder, "said-" + job), "w+b") as said:
        process = subprocess.Popen(command(options, hosts, family, ranks, phase, folder, job, by_stepc), cwd=folder, env=env,
                                   stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        try:
            until = time.monotonic() + 30
            while time.monotonic() < until and process.poll() is None:
                pids = ranks_of(job)
                if len(pids) == ranks and os.path.exists(os.path.join(folder, "metrics-%s.jsonl" % job)):
                    break
                time.sleep(0.01)
            time.sleep(draw.random() * 0.3)
            victim = draw.randrange(ranks)
            pids = ranks_of(job)
            if victim not in pids:
                said.seek(0)
                return "it ended before the fault\n%s" % said.read().decode("utf-8", "replace")
            if hosts:
                hosts.cut()
            else:
                os.kill(pids[victim], FAULTS[fault])
            begin = time.monotonic()
            survivors = [pid for rank, pid in pids.items() if hosts or rank != victim]
            while any(alive(pid) for pid in survivors) and time.monotonic() - begin < TIMEOUT + 12:
                time.sleep(0.02)
            took = time.monotonic() - begin
            if hosts:  # what a cut link keeps mpirun waiting for is not ours
                time.sleep(0.5)
                process.kill()
            code = process.wait(40)
        except subprocess.TimeoutExpired:
            return "the launcher is still there"
        finally:
            for pid in ranks_of(job).values():
                os.kill(pid, signal.SIGKILL)
            if process.poll() is None:
                process.kill()
            process.wait()
        said.seek(0)
        text = said.read().decode("utf-8", "replace")
    if fault == "told to stop":  # a run ends after its step, on all ranks
        return None if took < TIMEOUT + 2 and code != 0 or code == 0 else "exit %d after %.1f s\n%s" % (code, took, text)
    if took > TIMEOUT + 2:
        return "the others took %.1f s\n%s" % (took, text)
    if by_stepc and code != 3:
        return "stepc run -n ended with %d\n%s" % (code, text)
    if not hosts and (code == 0 or (fault == "stopped" and family == "openmpi" and code != 3)):  # MPICH's mpirun has codes of its own
        return "exit %d\n%s" % (code, text)
    if fault == "stopped" and not re.search(r"rank %d \(host \S+, pid \d+\) does not answer" % victim, text):
        return "exit %d; rank %d was stopped\n%s" % (code, victim, text)
    if hosts and not re.search(r"rank %d \(host \S+, pid \d+\) does not answer" % (ranks - 1), text):
        return "rank %d was cut off\n%s" % (ranks - 1, text)
    named = r"signal|[Rr]ank %d|EXIT CODE" % victim if (fault, family) != ("ended", "mpich") else "a rank ended too early|BAD TERMINATION|rank %d" % victim
    if fault not in ("stopped", "cut off") and not re.search(named, text):
        return "exit %d; rank %d is not named\n%s" % (code, victim, text)
    return goes_on(options, family, ranks, folder, job) if phase == "save" else None


def forgetful(options, family, folder):
    """Under an mpirun that always ends with 0, as MPICH's may after SIGTERM, `stepc run -n` says 0 only where all ranks came to their end."""
    here, wrong = os.path.join(folder, family, "forgetful"), []
    os.mkdir(here)
    with open(os.path.join(here, "mpirun"), "w") as f:
        f.write('#!/bin/sh\nmpirun.%s "$@" &\ntrap "kill -TERM $!" TERM\nwait $!\nwait $!\nexit 0\n' % family)
    os.chmod(f.name, 0o755)
    for what, good in (("nothing", (0,)), ("rank told to stop", (-signal.SIGTERM,)), ("rank killed", (3,)), ("mpirun told to stop", (-signal.SIGTERM, 3))):
        job = "%s-%s" % (family, what.replace(" ", "-"))
        env = dict(mpi.QUIET, STEPC_TEST_JOB=job, PATH="%s:%s" % (here, os.environ["PATH"]), OMPI_MCA_odls_base_sigkill_timeout="1")  # it waits so long before it tells ranks
        run = command(options, None, family, 2, "update", folder, job, True)
        run[run.index("--steps") + 1] = "3" if what == "nothing" else "1000000"
        process = subprocess.Popen(run, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        until = time.monotonic() + 30
        while what != "nothing" and time.monotonic() < until and not (len(ranks_of(job)) == 2 and os.path.exists(os.path.join(folder, "metrics-%s.jsonl" % job))):
            time.sleep(0.01)
        if what == "mpirun told to stop":
            for thread in os.listdir("/proc/%d/task" % process.pid):
                with open("/proc/%d/task/%s/children" % (process.pid, thread)) as f:
                    for child in f.read().split():
                        os.kill(int(child), signal.SIGTERM)
        elif what != "nothing":
            os.kill(ranks_of(job)[1], signal.SIGKILL if what == "rank killed" else signal.SIGTERM)
        said = process.communicate(timeout=60)[1]
        if process.returncode not in good:
            wrong.append("%s, %s, mpirun says 0: stepc run -n ended with %d\n%s" % (family, what, process.returncode, said))
    return wrong


def prepare(options, folder, counts, phases=("save",)):
    rng = np.random.default_rng(1)
    for phase in phases:
        rows, width, optimizer = PHASES[phase]
        safetensors.write(os.path.join(folder, phase + ".safetensors"),
                          {"x": rng.normal(size=(4, rows, 64)).astype("f4"), "y": rng.normal(size=(4, rows, 8)).astype("f4")})
        with open(os.path.join(folder, phase + ".json"), "w") as f:
            json.dump(document(rows, width, optimizer), f)
        for ranks in counts:
            mpi.said([options.stepc, "compile", phase + ".json", "--mesh", "data=%d" % ranks, "-o", "%s-%d.so" % (phase, ranks), "-q"], folder)


def plan(options, families):
    """Family, ranks, fault, phase: all of them five times, or each fault and phase at least once."""
    everything = itertools.product(families, (2, 3, 4), FAULTS, PHASES)
    if options.all:
        return list(everything) * 5
    phases, ranks = itertools.cycle(PHASES), itertools.cycle((2, 3, 4))
    return [(families[k % len(families)], next(ranks), fault, next(phases)) for k, fault in enumerate(list(FAULTS) * 2)]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--stepc", default="build/stepc", type=os.path.abspath)
    p.add_argument("--all", action="store_true", help="every fault, phase and number of ranks, five times each")
    p.add_argument("--only", help="those of this fault")
    p.add_argument("--ledger", help="leaves a line there")
    options = p.parse_args()
    families = mpi.installed(options.stepc)
    if not families:
        return mpi.SKIPPED
    faults, runs, skipped = [], 0, None
    with tempfile.TemporaryDirectory(prefix="stepc-faults-") as folder:
        prepare(options, folder, (1, 2, 3, 4), PHASES)
        for family in families:  # `stepc run -n` starts the mpirun that comes first
            os.mkdir(os.path.join(folder, family))
            with open(os.path.join(folder, family, "mpirun"), "w") as f:
                f.write('#!/bin/sh\nexec mpirun.%s "$@"\n' % family)
            os.chmod(f.name, 0o755)
        subprocess.run(["cc", "-shared", "-fPIC", os.path.join(ROOT, "tests", "mesh", "ended.c"), "-o", os.path.join(folder, "ended.so")], check=True)
        faults += [why for family in families for why in forgetful(options, family, folder)]
        for seed, (family, ranks, fault, phase) in enumerate(plan(options, families)):
            if options.only and fault != options.only:
                continue
            if FAULTS[fault] is None:
                with networks.Hosts(folder) as hosts:
                    skipped = hosts.why
                    why = None if skipped else play(options, family, ranks, fault, phase, seed, folder, hosts)
                runs -= bool(skipped)
            else:
                why = play(options, family, ranks, fault, phase, seed, folder)
            runs += 1
            if why:
                faults.append("%s, %d ranks, one %s in %s (seed %d): %s" % (family, ranks, fault, phase, seed, why))
            shutil.rmtree(os.path.join(folder, "saved-%d-%d" % (os.getpid(), seed)), ignore_errors=True)
    told = ["%d runs by %s, %d wrong" % (runs, " and ".join(families), len(faults))]
    told += ["skipped: links that are cut: %s" % skipped] if skipped else []
    print("\n".join(faults + told))
    if options.ledger:
        with open(options.ledger, "a") as f:
            f.write("%s lost ranks: %s\n" % (datetime.date.today(), "; ".join(told)))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
