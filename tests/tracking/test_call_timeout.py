"""A server that never stops answering, a byte at a time, and a database that cannot be opened: both end in time."""

import socket
import threading
import time
from contextlib import suppress

import pytest

from raybench.tracking import call_timeout
from raybench.tracking.call_timeout import Bounded, within
from raybench.tracking.store import StoreError, store_from_uri

HEADERS = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 10000\r\n\r\n"


@pytest.fixture(params=[b"HTTP/1.1 200 OK\r\nX: ", HEADERS], ids=["in its headers", "in its body"])
def dripping(request):
    """The URL of a server that answers every request with this, and then a byte every 50 ms."""
    listener, over = socket.create_server(("127.0.0.1", 0)), threading.Event()

    def answer(connection):
        with connection, suppress(OSError):
            connection.recv(1 << 16)
            connection.sendall(request.param)
            while not over.wait(0.05):
                connection.sendall(b"x")

    def serve():
        with suppress(OSError):
            while True:
                threading.Thread(target=answer, args=[listener.accept()[0]], daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    over.set()
    listener.close()


@pytest.mark.slow
@pytest.mark.mlflow
def test_a_server_that_sends_a_byte_at_a_time_is_given_up(dripping, monkeypatch):
    from raybench.tracking.mlflow import Runs

    monkeypatch.setattr(call_timeout, "REQUEST", 0.5)
    with pytest.raises(StoreError, match=rf"MLflow store {dripping}: no complete answer within 0\.5 s"):
        Runs(store_from_uri(dripping), "grid")


@pytest.mark.slow
@pytest.mark.mlflow
def test_a_database_that_cannot_be_opened_is_told_within_seconds(tmp_path):
    from raybench.tracking.mlflow import Runs

    (tmp_path / "runs.db").mkdir()
    store = store_from_uri(f"sqlite:///{tmp_path}/other.db")
    (tmp_path / "runs.db").rename(store.path)  # after it was looked at
    began = time.monotonic()
    with pytest.raises(StoreError, match="unable to open database file"):
        Runs(store, "grid")
    assert time.monotonic() - began < 60, "MLflow alone takes 102 s"


def test_a_call_within_its_time_is_as_without():
    assert within(60, lambda: 3) == 3
    with pytest.raises(LookupError, match="none"):
        within(60, lambda: {}["none"])


def test_a_call_that_takes_longer_is_left():
    over = threading.Event()
    with pytest.raises(TimeoutError, match=r"no complete answer within 0\.01 s"):
        within(0.01, over.wait)
    over.set()


def test_every_method_of_a_client_has_a_deadline(monkeypatch):
    class Client:
        uri = "http://server"
        over = threading.Event()

        def search(self, what, *, most):
            return [what] * most

        def hang(self):
            self.over.wait()

    client = Bounded(Client())
    monkeypatch.setattr(call_timeout, "REQUEST", 0.01)
    assert client.uri == "http://server"
    with pytest.raises(TimeoutError):
        client.hang()
    Client.over.set()
    monkeypatch.setattr(call_timeout, "REQUEST", 60)
    assert client.search("run", most=2) == ["run", "run"]
