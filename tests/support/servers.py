"""Real MLflow servers on this machine, PostgreSQL for them, and a proxy that does to them what networks do."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PATIENCE = 400
"""Seconds that a server may take to begin: a loaded machine takes minutes."""


def free_port() -> int:
    """A port that nothing listens on, below those that systems give out by themselves.

    One that the system chose would be chosen again, for somebody else, before a server has started on it.
    """
    while True:
        port = random.SystemRandom().randrange(20000, 32000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class Server:
    """An MLflow server, which can be stopped and started again on the same port with the same store."""

    def __init__(self, folder: Path, *arguments: str, store: str = "", **environment: str) -> None:
        self.folder, self.port = folder, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        # One worker is what a test needs, and its runner of background jobs serves no training run.
        own = ["--port", str(self.port), "--workers", "1", "--artifacts-destination", str(folder / "artifacts")]
        self._command = [sys.executable, "-m", "mlflow", "server", *own, *arguments]
        self._environment = os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"} | environment
        # By the environment: anybody on the machine can read a command line.
        self._environment["MLFLOW_BACKEND_STORE_URI"] = store or f"sqlite:///{folder}/mlflow.db"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log, cwd=self.folder, env=self._environment, start_new_session=True
            )
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                urllib.request.urlopen(f"{self.url}/health", timeout=5).close()
                return
            except OSError:
                told = self._process.poll() is None and time.monotonic() < deadline
                assert told, (self.folder / "log").read_text()
                time.sleep(0.2)

    def stop(self) -> None:
        """End it without a word, as a machine that goes away does."""
        if self._process:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, 9)
            self._process.wait(60)
            self._process = None


@contextmanager
def mlflow_server(folder: Path, *arguments: str, store: str = "", **environment: str) -> Iterator[Server]:
    """A running server."""
    server = Server(folder, *arguments, store=store, **environment)
    try:
        server.start()
        yield server
    finally:
        server.stop()
