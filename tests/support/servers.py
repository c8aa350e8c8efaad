"""Real MLflow servers on this machine, PostgreSQL for them, and a proxy that does to them what networks do."""

from __future__ import annotations

import http.client
import os
import random
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
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


class Proxy:
    """Stands before a server; how it treats a request is said by `mode`, which may change at any time.

    Attributes:
        mode: `pass`; `refuse` (the connection ends before the request is passed on); `swallow` (the request is passed
            on, and the connection ends before its answer); `error` (503 instead); `unauthorized` (401 instead); `slow`
            (`delay` seconds later); or a function from a request's method and path to one of these.
        delay: seconds by which `slow` holds up a request.
        asked: the method and path of each request so far.
    """

    def __init__(self, upstream: str) -> None:
        self.mode: str | Callable[[str], str] = "pass"
        self.delay = 0.0
        self.asked: list[str] = []
        own = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _treat(self) -> None:
                request = f"{self.command} {self.path}"
                mode = own.mode if isinstance(own.mode, str) else own.mode(request)
                own.asked.append(request)
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if mode == "refuse":
                    self.close_connection = True
                    return
                if mode == "error":
                    self._answer(503, b"try later", {})
                    return
                if mode == "unauthorized":
                    self._answer(401, b"who are you?", {})
                    return
                if mode == "slow":
                    time.sleep(own.delay)
                host = upstream.removeprefix("http://")
                connection = http.client.HTTPConnection(host, timeout=60)
                headers = {name: text for name, text in self.headers.items() if name.lower() != "connection"}
                try:
                    connection.request(self.command, self.path, body, headers)
                    answer = connection.getresponse()
                    told = answer.read()
                finally:
                    connection.close()
                if mode == "swallow":
                    self.close_connection = True
                    return
                kept = {name: text for name, text in answer.getheaders() if name.lower() == "content-type"}
                self._answer(answer.status, told, kept)

            def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
                with suppress(OSError):
                    self.send_response(status)
                    for name, text in headers.items():
                        self.send_header(name, text)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            setattr(Handler, f"do_{method}", Handler._treat)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def proxy(upstream: str) -> Iterator[Proxy]:
    """A proxy before a server."""
    made = Proxy(upstream)
    try:
        yield made
    finally:
        made.close()
