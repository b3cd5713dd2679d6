"""Two hosts made of network namespaces and a link between them that can be cut; ranks start on both by `ip netns exec` in place of ssh."""
import contextlib
import os
import shutil
import signal
import subprocess
import time

IP = shutil.which("ip", path="/usr/sbin:/sbin:/usr/bin:/bin")
AGENT = """#!/bin/sh
# AGENT [OPTION...] ADDRESS COMMAND...
while :; do case $1 in %(addresses)s) break ;; *) shift ;; esac; done
name=%(name)s-${1##*.}
shift
exec %(ip)s netns exec "$name" sh -c "$*"
"""


class Hosts:
    """`with Hosts(folder) as hosts`: hosts.why says what this machine does not permit, None: they are there."""

    def __init__(self, folder):
        self.name = "stepc%d" % os.getpid()
        self.names = [self.name + "-1", self.name + "-2"]
        self.addresses = ["10.213.7.1", "10.213.7.2"]
        self.agent = os.path.join(folder, "agent-" + self.name)
        self.why = None

    def ip(self, *arguments):
        done = subprocess.run([IP, *arguments], capture_output=True, text=True)
        if done.returncode:
            raise OSError("ip %s: %s" % (" ".join(arguments), done.stderr.strip()))
        return done.stdout

    def __enter__(self):
        try:
            if not IP:
                raise OSError("ip (iproute2) is not installed")
            for name in self.names:
                self.ip("netns", "add", name)
                self.ip("-n", name, "link", "set", "lo", "up")
            self.ip("-n", self.names[0], "link", "add", "link0", "type", "veth", "peer", "name", "link0", "netns", self.names[1])
            for name, address in zip(self.names, self.addresses):
                self.ip("-n", name, "address", "add", address + "/24", "dev", "link0")
                self.ip("-n", name, "link", "set", "link0", "up")
            for name in self.names:  # it takes up to a second
                while "state UP" not in self.ip("-n", name, "link", "show", "link0"):
                    time.sleep(0.02)
            with open(self.agent, "w") as f:
                f.write(AGENT % {"addresses": "|".join(self.addresses), "name": self.name, "ip": IP})
            os.chmod(self.agent, 0o755)
        except OSError as e:
            self.why = str(e)
        return self

    def __exit__(self, *_):
        for name in self.names if IP else []:
            for pid in subprocess.run([IP, "netns", "pids", name], capture_output=True, text=True).stdout.split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            subprocess.run([IP, "netns", "del", name], stderr=subprocess.DEVNULL)

    def launcher(self, family, ranks):
        """The command that starts ranks on both hosts, from the first one."""
        first = (ranks + 1) // 2
        places = ",".join("%s:%d" % place for place in zip(self.addresses, (first, ranks - first)))
        if family == "openmpi":
            how = ["--mca", "plm", "rsh", "--mca", "plm_rsh_agent", self.agent, "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "10.213.7.0/24",
                   "--mca", "oob_tcp_if_include", "10.213.7.0/24", "--host", places, "--bind-to", "none"]
        else:
            how = ["-launcher", "ssh", "-launcher-exec", self.agent, "-iface", "link0", "-hosts", places]
        return [IP, "netns", "exec", self.names[0], "mpirun." + family, *how, "-n", str(ranks)]

    def cut(self):
        self.ip("-n", self.names[0], "link", "set", "link0", "down")
