"""Names of Ray and Tune outside their public interfaces; a test checks that Ray still knows each of them."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path

CONFIG_KEY = "raybench"
"""Key of a trial's config in Tune that has raybench's values; all other keys are axes of the grid."""

RAY_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",  # no telemetry
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",  # no copy of the environment under `uv run`
    "RAY_task_events_report_interval_ms": "0",  # no record of tasks for a dashboard
    "RAY_worker_niceness": "0",  # 15 by default: any other process would slow down a timed trial
    "RAY_kill_child_processes_on_worker_exit": "0",  # fork servers end their trials themselves
    "RAY_memory_monitor_refresh_ms": "0",  # it would kill an actor with all its trials; the kernel kills one
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",  # no metric decides what Tune does
    "TUNE_MAX_PENDING_TRIALS_PG": "1000",  # the driver hands out what may start
    "TUNE_GLOBAL_CHECKPOINT_S": "1000000",  # raybench resumes from the attempts' files
    "RAY_AIR_NEW_OUTPUT": "0",
}
"""Environment variables of Ray and Tune, set before they are imported unless the user has set them."""

CLUSTER_SETTINGS = {"RAY_NUM_REDIS_GET_RETRIES": "5"}  # a refused token is reported after seconds, not a minute
"""Environment variables of a client of a cluster."""

MEMORY = {"_memory": 1 << 30}
"""Argument of `ray.init`: the memory of a local Ray, of which nothing asks for any.

By default Ray subtracts the memory in use from the memory that there is now, and does not start in a virtual machine
whose memory grows with its use."""

RAY_PROGRAMS = {"raylet": "raylet", "gcs_server": "GCS server"}
"""Names of the two processes of a local Ray that nothing replaces; the raylet also ends with its agents."""


def private_to_user(token: Path) -> dict[str, str]:
    """Make a token, without which Ray's servers would run any user's code, and return the variables of a local Ray."""
    token.touch(mode=0o600)
    token.write_text(secrets.token_hex(32))
    return {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        # Off Linux this is Ray's default: its servers listen on 127.0.0.1 instead of every network interface.
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    }


def token_of_cluster(environ: Mapping[str, str]) -> dict[str, str]:
    """The variable with which a client uses the user's token, if there is one: Ray itself uses it only in servers."""
    token = Path(environ.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray" / "auth_token")
    return {"RAY_AUTH_MODE": "token"} if environ.get("RAY_AUTH_TOKEN") or token.is_file() else {}
