"""The environment of every test, the layers, and fixtures that are expensive to make.

A test has an empty home folder, sees no accelerator unless it asks for one, and no Ray cluster or MLflow server of the
user.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from support.frameworks import FOR_ACCELERATORS, USERS_OWN, interpreter

HOME = "RAYBENCH_TESTS_HOME"
"""Environment variable: the home folder of this test run, made by its first process."""


CORES = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


def _isolate() -> None:
    """Make the environment of this process, and of each that it starts, the same on every machine."""
    if HOME in os.environ:  # a worker of pytest-xdist: its parent has done this
        return
    user_cache = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    os.environ.setdefault("RAYBENCH_ENVIRONMENTS", str(user_cache / "raybench" / "environments"))
    ours = ("RAYBENCH_DATA", "RAYBENCH_ENVIRONMENTS")
    foreign = (
        "RAYBENCH_",
        "RAY_",
        "TUNE_",
        "MLFLOW_",
        "XDG_",
        "OMP_",
        "MKL_",
        "TF_",
        "KERAS_",
        "PJRT_",
        "XLA_",
        "CUDA_",
    )
    users_own = {name: value for name, value in os.environ.items() if name.startswith(FOR_ACCELERATORS)}
    os.environ[USERS_OWN] = json.dumps(users_own)
    for name in list(os.environ):
        if name.startswith(foreign) and name not in (*ours, USERS_OWN):
            del os.environ[name]
    for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "PYTHONOPTIMIZE", "PYTHONWARNINGS"):
        os.environ.pop(name, None)
    home = tempfile.mkdtemp(prefix="raybench-tests-")
    # Making a font cache takes seconds.
    fonts = Path(tempfile.gettempdir()) / f"raybench-tests-matplotlib-{os.getuid()}"
    os.environ |= {
        HOME: home,
        "HOME": home,
        "MPLCONFIGDIR": str(fonts),
        "RAYBENCH_ACCELERATORS": "none",
        "CUDA_VISIBLE_DEVICES": "",
        # Threads that wait by spinning slow down the tests beside them.
        "OMP_WAIT_POLICY": "PASSIVE",
        # torch compiles in the process itself, without helpers of its own that load it again.
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        # XLA compiles five times as fast, with the same results.
        "XLA_FLAGS": "--xla_backend_optimization_level=0",
        # No telemetry from tests.
        "RAY_USAGE_STATS_ENABLED": "0",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "DO_NOT_TRACK": "true",
        "NO_PROXY": "127.0.0.1,localhost",
    }
    # A shell that starts pytest in the background makes it, and all that it starts, ignore Ctrl-C.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


_isolate()

from raybench.execution.process import ForkServer  # noqa: E402
from raybench.execution.ray_executor import RayExecutor  # noqa: E402
from raybench.tracking.store import Store, resolve  # noqa: E402


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the home folder at the end of the whole run."""
    if not hasattr(config, "workerinput"):
        shutil.rmtree(os.environ[HOME], ignore_errors=True)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """One process for tests that measure or share an accelerator; else what xdist chooses."""
    return 0 if config.option.markexpr.strip() in ("exhaustive", "gpu", "tpu") else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Derive markers from fixtures; long files come first, so that no process is left alone with one at the end."""
    for item in items:
        if item.get_closest_marker("exhaustive"):
            item.add_marker("slow")
        for fixture, marker in {"ray_executor": "ray", "migrated_database": "mlflow"}.items():
            if fixture in getattr(item, "fixturenames", ()):
                item.add_marker(marker)
    weights: dict[Path, int] = {}
    for item in items:
        weights[item.path] = min(weights.get(item.path, 9), _weight(item))
    items.sort(key=lambda item: weights[item.path])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give all tests with TensorFlow or XLA to one process, and all with one Ray: to load or start it takes seconds."""
    from xdist.scheduler import LoadFileScheduling

    class ByFramework(LoadFileScheduling):
        @cache  # noqa: B019
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            text = (config.rootpath / file).read_text()
            shared = {"frameworks": "mark.tensorflow|mark.xla", "ray": "ray_executor"}
            return next((name for name, sign in shared.items() if re.search(sign, text)), file)

    return ByFramework(config, log)


def _weight(item: pytest.Item) -> int:
    """Long tests first."""
    heavy = ("tensorflow", "xla", "cluster", "ray", "slow")
    return next((place for place, name in enumerate(heavy) if item.get_closest_marker(name)), len(heavy))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose framework is missing; undo what trials changed that earlier tests ran in this process."""
    if CORES:
        os.sched_setaffinity(0, CORES)
    os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] = "0"  # they delete MLflow's variables
    for marker, framework in {"tensorflow": "tensorflow", "xla": "torch_xla"}.items():
        if item.get_closest_marker(marker):
            interpreter(framework)


@pytest.fixture
def sleep(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """A clock that only sleeping advances."""
    now_ns = [0]
    monkeypatch.setattr(time, "perf_counter_ns", lambda: now_ns[0])
    monkeypatch.setattr(time, "perf_counter", lambda: now_ns[0] / 1e9)

    def sleep(seconds: float) -> None:
        now_ns[0] += round(seconds * 1e9)

    return sleep


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder with the real data sets; skips, with the reason, if there is none."""
    named = os.environ.get("RAYBENCH_DATA")
    if not named or not (Path(named) / "cifar-10-batches-bin").is_dir():
        pytest.skip("RAYBENCH_DATA names no folder with the real data sets")
    return Path(named)


@pytest.fixture(scope="session")
def golden_journal() -> Path:
    """The journal that docs/reference/formats.md follows, with made-up numbers."""
    return Path(__file__).parent / "golden" / "journal.jsonl"


@pytest.fixture
def golden_events(golden_journal: Path) -> list[dict[str, Any]]:
    """The same as its events."""
    return [json.loads(line) for line in golden_journal.read_text().splitlines()]


@pytest.fixture(scope="session")
def shared_tmp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of this test run share."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def migrated_database(shared_tmp: Path) -> Path:
    """A new MLflow database: its migrations take five seconds, so they run once and the file is copied."""
    path = shared_tmp / "migrated.db"
    with FileLock(f"{path}.lock"):
        if not path.exists():
            from mlflow import MlflowClient

            new = shared_tmp / "migrating.db"
            MlflowClient(f"sqlite:///{new}").search_experiments()
            new.rename(path)
    return path


@pytest.fixture
def mlflow_results(tmp_path: Path, migrated_database: Path) -> Path:
    """A results folder whose MLflow database exists already."""
    folder = tmp_path / "results"
    folder.mkdir()
    shutil.copy(migrated_database, folder / "mlflow.db")
    return folder


@pytest.fixture(scope="session")
def own_store(tmp_path_factory: pytest.TempPathFactory, migrated_database: Path) -> Store:
    """A sqlite store for all tests of this process; each uses grids of its own names."""
    folder = tmp_path_factory.mktemp("store")
    return resolve(folder, f"sqlite:///{shutil.copy(migrated_database, folder / 'mlflow.db')}")


class SessionRay(RayExecutor):
    """Ray for many grids: starting it takes longer than most of them do."""

    def close(self) -> None:
        """Keep Ray for the next grid."""

    def end(self) -> None:
        """End Ray."""
        super().close()


@pytest.fixture(scope="session")
def ray_executor() -> Iterator[SessionRay]:
    """The real executor, with one Ray for all tests of this process."""
    executor = SessionRay()
    yield executor
    executor.end()


@pytest.fixture(scope="module")
def small_probes() -> Iterator[None]:
    """Measure the peak speed of the device with one small operation of each kind."""
    from support.sides.roofline_side import SMALL

    from raybench.checks import roofline

    with pytest.MonkeyPatch.context() as patch:
        for name, value in SMALL.items():
            patch.setattr(roofline, name, value)
        yield


@pytest.fixture
def template(fork_server: Callable[[str], ForkServer]) -> ForkServer:
    """The fork server of torch."""
    return fork_server("torch")


@pytest.fixture(scope="session")
def fork_server() -> Iterator[Callable[[str], ForkServer]]:
    """Returns the fork server of a framework, one for all tests of this process; it must stay alive."""
    started: dict[str, ForkServer] = {}

    def server(framework: str = "torch") -> ForkServer:
        if framework not in started or not started[framework].alive:
            started[framework] = ForkServer(framework, "" if framework == "torch" else interpreter(framework))
        return started[framework]

    yield server
    for each in started.values():
        each.close()
