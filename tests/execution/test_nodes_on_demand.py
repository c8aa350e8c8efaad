"""A cluster that starts a node for what waits: Ray's fake autoscaler, in namespaces of its own."""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from support import ROOT
from support.two_nodes import missing, run

pytestmark = [pytest.mark.slow, pytest.mark.ray, pytest.mark.cluster]

AUTOSCALER = {
    "cluster_name": "fake",
    "max_workers": 1,
    "idle_timeout_minutes": 5,
    "provider": {"type": "fake_multinode", "launch_multiple": True, "head_node_id": "f" * 51 + "00000"},
    "available_node_types": {
        "head": {"resources": {"CPU": 1}, "node_config": {}, "max_workers": 0},
        "worker": {"resources": {"CPU": 1, "b": 1}, "node_config": {}, "min_workers": 0, "max_workers": 1},
    },
    "head_node_type": "head",
    **{name: {} for name in ("auth", "file_mounts")},
    **{
        name: []
        for name in (
            "cluster_synced_files",
            "rsync_exclude",
            "rsync_filter",
            "initialization_commands",
            "setup_commands",
            "head_setup_commands",
            "worker_setup_commands",
            "head_start_ray_commands",
            "worker_start_ray_commands",
        )
    },
    "file_mounts_sync_continuously": False,
}

GRID = """
name: demand
workload: {command: sh job.sh}
devices:
  here: {kind: cpu, cpus: 1}
  there: {kind: cpu, cpus: 1, resources: {b: 1}}
axes: {device: [here, there]}
"""

JOB = "for epoch in 1 2 3; do sleep 0.2; echo epoch $epoch loss 1; done"

INSIDE = "ip netns exec {name} unshare --pid --fork --mount-proc --kill-child sh -c"

SCRIPT = """
ip link set lo up
ray start --head --autoscaling-config autoscaler.json --port 6379 --num-cpus 1 --include-dashboard=false \
  --object-store-memory 100000000 --temp-dir "$RAY_FOLDER" > ray.txt 2>&1
raybench grid grid.yaml --tracking none --no-checks
"""


def test_a_device_that_no_node_has_waits_for_its_node(tmp_path):
    if reason := missing():
        pytest.skip(reason)
    (tmp_path / "autoscaler.json").write_text(json.dumps(AUTOSCALER))
    (tmp_path / "grid.yaml").write_text(GRID)
    (tmp_path / "job.sh").write_text(JOB)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    name = f"rbscale{os.getpid()}"
    run("ip", "netns", "add", name)
    try:
        with tempfile.TemporaryDirectory(prefix="rb", ignore_cleanup_errors=True) as ray_folder:
            ray = {"RAY_FAKE_CLUSTER": "1", "AUTOSCALER_UPDATE_INTERVAL_S": "1", "RAY_AUTH_MODE": "disabled"}
            ray |= {"RAY_ADDRESS": "127.0.0.1:6379", "RAY_FOLDER": ray_folder, "RAY_worker_niceness": "0"}
            done = subprocess.run(
                [*INSIDE.format(name=name).split(), SCRIPT],
                cwd=tmp_path,
                env=os.environ | ray | {"PATH": path, "PYTHONPATH": str(ROOT), "COLUMNS": "200"},
                capture_output=True,
                text=True,
                timeout=300,
            )
    finally:
        run("ip", "netns", "del", name, check=False)
    words = " ".join(done.stdout.split())
    assert done.returncode == 0, done.stdout + done.stderr
    order = [
        "Waiting for 1 node with 1 x core and 1 x b for there",
        "was started for there",
        "completed there",
    ]
    places = [words.find(text) for text in order]
    assert places == sorted(places) and places[0] >= 0, done.stdout
    assert "completed here" in words
    assert {*re.findall(r" \d (here|there) ", words)} == {"here", "there"}, "two rows, compared"
