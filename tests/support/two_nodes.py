"""A Ray cluster of two nodes on one machine, each with an address, a host name and a disk of its own (namespaces)."""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from raybench.core.ports import free_port
from support import ROOT

RAY = Path(sys.executable).with_name("ray")


def run(*command, check=True):
    return subprocess.run(command, check=check, capture_output=True, text=True, timeout=60)


def missing():
    """Why there can be no such cluster here; empty where there can."""
    if not shutil.which("ip") or os.geteuid() != 0 or not RAY.exists():
        return "network namespaces need root and iproute2"
    name = f"rbtry{os.getpid()}"
    tried = run("ip", "netns", "add", name, check=False)
    run("ip", "netns", "del", name, check=False)
    return tried.stderr.strip() if tried.returncode else ""


class TwoNodes:
    """`head`, which this machine is, and `node-b`, which has a TPU to Ray and does not see the driver's folder.

    Args:
        folder: for Ray's own files and the second node's cache.
        hidden: what the second node finds empty.
    """

    def __init__(self, folder, hidden):
        number = os.getpid() % 16000
        self.name = f"rb{number}"
        net = f"198.{18 + number // 16000}.{number // 64 % 250}"
        self._first, self._second = (f"{net}.{number % 64 * 4 + place}" for place in (1, 2))
        self._port = free_port()
        self.address = f"{self._first}:{self._port}"
        self.cache, self._folder, self._hidden = folder / "cache-b", folder, hidden
        self.environ = os.environ | {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_worker_niceness": "0",
            "PYTHONPATH": str(ROOT),
        }
        self._processes = []
        # The sockets in here have names of at most 107 bytes, which pytest's folders are too long for.
        self._ray = tempfile.mkdtemp(prefix="rb")
        here, there = f"{self.name}a", f"{self.name}b"
        run("ip", "netns", "add", self.name)
        run("ip", "link", "add", here, "type", "veth", "peer", "name", there, "netns", self.name)
        run("ip", "addr", "add", f"{self._first}/30", "dev", here)
        run("ip", "link", "set", here, "up")
        for what in (["addr", "add", f"{self._second}/30", "dev", there], ["link", "set", there, "up"]):
            run("ip", "-n", self.name, *what)
        run("ip", "-n", self.name, "link", "set", "lo", "up")

    def start_head(self):
        """Start the first node."""
        ports = ["--port", str(self._port), "--include-dashboard=false"]
        if find_spec("grpc"):  # without which Ray has no client server
            ports += ["--ray-client-server-port", str(free_port())]
        self._start("head", [RAY, "start", "--head", *ports, "--temp-dir", self._ray], self._first)

    def start_second(self):
        """Start the second node, or start it again."""
        script = f'mount -t tmpfs none "{self._hidden}" && hostname node-b && exec "$@"'
        inside = ["ip", "netns", "exec", self.name, "unshare", "-u", "sh", "-c", script, "sh"]
        more = ["--address", self.address, "--resources", '{"TPU": 4}']
        self._start("second", [*inside, RAY, "start", *more], self._second, XDG_CACHE_HOME=str(self.cache))

    def _start(self, name, command, address, **environ):
        log = self._folder / f"{name}.log"
        more = ["--block", "--node-ip-address", address, "--num-cpus", "1", "--object-store-memory", "100000000"]
        with log.open("w") as words:
            everything = {"env": self.environ | environ, "stdout": words, "stderr": words, "start_new_session": True}
            process = subprocess.Popen([*command, *more], **everything)
        self._processes.append(process)
        deadline = time.monotonic() + 120
        while "This command will now block" not in log.read_text():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)

    def move_second(self):
        """Give the second node, which does not run, a different address."""
        first, self._second = (address.replace("198.18.", "198.19.") for address in (self._first, self._second))
        run("ip", "addr", "add", f"{first}/30", "dev", f"{self.name}a")
        run("ip", "-n", self.name, "addr", "add", f"{self._second}/30", "dev", f"{self.name}b")

    @property
    def head(self):
        """The process number of the first node's command, whose descendants run there."""
        return self._processes[0].pid

    def processes_of_second(self):
        """The process numbers of the second node."""
        return [int(number) for number in run("ip", "netns", "pids", self.name).stdout.split()]

    def kill_second(self):
        """End every process of the second node at once, as a machine that loses its power."""
        for number in self.processes_of_second():
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)

    def close(self):
        """End both nodes and take down what lies between them."""
        self.kill_second()
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        run("ip", "netns", "del", self.name, check=False)
        shutil.rmtree(self._ray, ignore_errors=True)
