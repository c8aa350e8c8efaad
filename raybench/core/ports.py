"""Ports for the ranks of a trial to meet."""

from __future__ import annotations

import random
import socket
from contextlib import suppress

PORTS = range(20000, 32000)
"""Ports below those that Linux gives to outgoing connections, any of which may take a free one at any time."""


def free_port(address: str = "127.0.0.1") -> int:
    """A random port of this host that nothing listens on."""
    while True:
        port = random.SystemRandom().choice(PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind((address, port))
            return port
