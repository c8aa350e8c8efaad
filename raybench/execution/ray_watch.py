"""Detect that the Ray of this process has ended.

Ray itself would wait for a minute or forever.

Ray has two processes that nothing replaces: the raylet, which starts workers and ends if its agent does, and the GCS,
which most calls go to. Measured with Ray 2.60: without its raylet, Tune waits forever for actors that cannot start;
without its GCS, a call blocks for 60 s, and then Ray ends the whole process.
"""

from __future__ import annotations

import math
import socket
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path
from signal import Signals

import psutil
from ray._private import worker

from raybench.execution.base import Tell, TemporaryMessage

EVERY = 0.2
"""Seconds between two checks of Ray's processes once it is up; a check takes microseconds."""

EVERY_AT_START = 0.05
"""Seconds between two checks while Ray starts; a check takes milliseconds."""

SLOW_START = 20.0
"""Seconds after which the user is informed that Ray is still starting; it takes 3 s on a quiet machine."""

STILL_STARTING = """Ray has not started after {seconds:g} s. It keeps trying for about a minute, since a busy machine \
is slow; a failure is then reported."""

AT_START = "{gone} while Ray started. Ray gives up within a minute and is then restarted."

SETTLE = 1.0
"""Seconds to wait, after an error from Ray, for the end of its processes, which may be the cause."""

HEAD_EVERY = 5.0
"""Seconds between two attempts to connect to a cluster's head."""

HEAD_GONE = """The head of the Ray cluster at {address} does not answer. Ray waits for it for a minute and then ends \
this command. Finished trials are kept; when the head is up, run the same command again for the rest."""

HEAD_BACK = "The head of the Ray cluster at {address} answers again."

PROGRAMS = {"gcs_server": ("GCS server", "/gcs/gcs_server"), "raylet": ("raylet", "/raylet/raylet")}
"""Ray's names of the two processes, each with its display name and the end of its program's path."""

REMOVED = "{folder} was removed during the run, perhaps by a program that cleans up temporary files"


class RayGoneError(BaseException):
    """Ray ended, or its folder was removed; the message says which process and how.

    It is not an `Exception`, because Tune reacts to those with blocking requests to Ray.
    """


class RayWatch:
    """Watches a local Ray from before `ray.init` until it is closed.

    Args:
        folder: Ray's temporary folder.
        tell: receives a message if Ray ends before `ray.init` has returned.
    """

    def __init__(self, folder: Path, tell: Tell) -> None:
        self._folder, self._tell, self._print = folder, tell, worker.print_to_stdstream
        self._commands: dict[str, list[str]] = {}
        self._pids: dict[str, int] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        # After a restart, the GCS that the last watch started may still run (`_start_another_gcs`); it is not Ray's.
        self._earlier = {child.pid for child in psutil.Process().children()}
        self._gone = ""
        self._noted: set[str] = set()
        self._closing = threading.Event()
        # When a worker or raylet ends, Ray prints a page of its logs, often before the end is detected here.
        worker.print_to_stdstream = lambda *arguments, **named: None
        self._thread = threading.Thread(target=self._watch, name="ray-watch", daemon=True)
        self._thread.start()

    def ray_is_up(self) -> None:
        """Watch the processes in Ray's own list; while Ray starts they are searched for in /proc."""
        node = worker._global_node
        self._commands = {name: list(node.all_processes[name][0].process.args) for name in PROGRAMS}
        self._processes = {name: node.all_processes[name][0].process for name in PROGRAMS}

    def _watch(self) -> None:
        slow_after = time.monotonic() + SLOW_START
        while not self._closing.wait(EVERY if self._processes else EVERY_AT_START):
            if self._processes:
                statuses = {name: process.poll() for name, process in self._processes.items()}
            else:
                statuses = self._look_for_processes()
                if time.monotonic() > slow_after:
                    slow_after = math.inf
                    self._tell(TemporaryMessage(STILL_STARTING.format(seconds=SLOW_START)))
            for name, status in statuses.items():
                if status is not None and name not in self._noted:
                    self._noted.add(name)
                    self._note(name, status)
            if self._processes and not self._gone and not self._folder.exists():
                self._gone = REMOVED.format(folder=self._folder)

    def _look_for_processes(self) -> dict[str, int | None]:
        """The processes of a Ray that is starting: None for a running one, 0 for one that has ended."""
        running = set()
        for child in psutil.Process().children():
            with suppress(psutil.Error):  # it has just ended
                if child.pid in self._earlier or child.status() == psutil.STATUS_ZOMBIE:
                    continue
                running.add(child.pid)
                command = child.cmdline()
                for name, (_, program) in PROGRAMS.items():
                    if command and command[0].endswith(program):
                        self._pids[name], self._commands[name] = child.pid, command
        return {name: None if pid in running else 0 for name, pid in self._pids.items()}

    def _note(self, name: str, status: int) -> None:
        if name == "gcs_server":
            self._start_another_gcs()
        if self._gone:
            return
        suffix = f" by {Signals(-status).name}" if status < 0 else ""
        self._gone = f"Ray's {PROGRAMS[name][0]} was ended{suffix}"
        if not self._processes:
            self._tell(AT_START.format(gone=self._gone))

    def _start_another_gcs(self) -> None:
        """Start a GCS at the address of the old one.

        Calls to that address then return, including those of Ray's own shutdown.

        It has no information on the old one's workers. It is cleaned up with Ray's other leftovers (`Reaper`).
        """
        ports = [path.read_text().strip() for path in self._folder.glob("session_2*/gcs_server_port*")]
        port = f"--gcs_server_port={ports[0] if ports else 0}"
        command = [port if arg.startswith("--gcs_server_port=") else arg for arg in self._commands["gcs_server"]]
        with suppress(OSError):
            subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def check(self) -> None:
        """Check that Ray is up.

        Raises:
            RayGoneError: it has ended.
        """
        if self._gone:
            raise RayGoneError(self._gone)

    def check_soon(self) -> None:
        """Call `check` after an error that an ending Ray may have caused.

        It waits for the end up to a second.
        """
        deadline = time.monotonic() + SETTLE
        while not self._gone and time.monotonic() < deadline:
            time.sleep(EVERY / 4)
        self.check()

    def expect_shutdown(self) -> None:
        """Treat the end of Ray's processes as its shutdown, which comes next.

        If Ray has lost a process, its shutdown is watched, because it would wait for a GCS that ends now.
        """
        if not self._gone:
            self._stop()

    def close(self) -> None:
        """Stop watching, after Ray's shutdown, and let Ray print again."""
        self._stop()
        worker.print_to_stdstream = self._print

    def _stop(self) -> None:
        self._closing.set()
        self._thread.join()


class HeadWatch:
    """Reports that the head of a cluster no longer answers.

    Ray is silent for a minute, then ends the process.

    Args:
        address: host and port of the cluster's GCS.
        tell: receives the message.
        every: seconds between two attempts to connect; the second failure in a row is reported.
    """

    def __init__(self, address: str, tell: Tell, every: float = HEAD_EVERY) -> None:
        self._address, self._tell, self._every = address, tell, every
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="head-watch", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        failures = 0
        while not self._closing.wait(self._every):
            if self._answers():
                if failures > 1:
                    self._tell(HEAD_BACK.format(address=self._address))
                failures = 0
            else:
                failures += 1
                if failures == 2:
                    self._tell(HEAD_GONE.format(address=self._address))

    def _answers(self) -> bool:
        host, _, port = self._address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=self._every).close()
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Stop watching."""
        self._closing.set()
        self._thread.join()
