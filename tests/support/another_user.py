"""What another user of this machine could do with a folder's files, some sockets and a Ray that others have started.

Runs as root: `python another_user.py FOLDER GCS_PORT`. Takes note of all that is in the folder, becomes the user
`nobody`, tries everything, and prints what succeeded as JSON. It leaves nothing behind.
"""

import json
import os
import socket
import stat
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

NOBODY = 65534


def entries(folder):
    """Every path below a folder, with its type, as root sees it."""
    found = {}
    for path in Path(folder).rglob("*"):
        with suppress(OSError):  # it has just gone
            found[path] = path.lstat().st_mode
    return found


def can_list(path):
    list(path.iterdir())


def can_replace(path):
    """A new name beside others; a folder with the sticky bit is one in which the others stay."""
    if path.stat().st_mode & stat.S_ISVTX:
        raise PermissionError
    descriptor, name = tempfile.mkstemp(dir=path)
    os.close(descriptor)
    Path(name).unlink()


def can_read(path):
    os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))


def can_write(path):
    os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))


def can_connect(path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as one:
        one.settimeout(5)
        one.connect(str(path))


def ask_ray(port):
    """What Ray answers somebody without its token: the name of an error, or that it answers."""
    from ray._raylet import GcsClient

    try:
        GcsClient(address=f"127.0.0.1:{port}").internal_kv_keys(b"", None, 5)
    except Exception as error:
        return type(error).__name__
    return "answers"


TRIES = {
    stat.S_IFDIR: {"list": can_list, "replace in": can_replace},
    stat.S_IFREG: {"read": can_read, "write": can_write},
    stat.S_IFSOCK: {"connect to": can_connect},
}


def main(folder, port):
    there = entries(folder)
    for name in [name for name in os.environ if name.startswith("RAY_AUTH_")]:
        del os.environ[name]
    import ray._raylet  # noqa: F401 — before this process may no longer read it

    os.environ["RAY_AUTH_MODE"] = "disabled"
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    tried = {what: 0 for tries in TRIES.values() for what in tries}
    done = {what: [] for what in tried}
    for path, mode in there.items():
        for what, attempt in TRIES.get(stat.S_IFMT(mode), {}).items():
            tried[what] += 1
            with suppress(OSError):
                attempt(path)
                done[what].append(str(path.relative_to(folder)))
    print(json.dumps({"tried": tried, "done": done, "ray": ask_ray(port)}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
