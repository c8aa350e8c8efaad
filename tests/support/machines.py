"""Results of one grid on several machines: copies of the recorded quick start, as other hosts would have made them."""

import json
import shutil
import uuid
from pathlib import Path

from raybench.core.identity import cell_id
from support import ROOT

RECORDED = ROOT / "notebooks" / "recorded"
GRID = "quickstart"
TRIALS = 12


def results_of(
    folder,
    host="vm-a",
    model="AMD EPYC",
    slower=1.0,
    torch="2.13.0+cpu",
    digest=None,
    started="2026-11-23",
    threads=2,
    machine_id="",
):
    """A results folder with the quick start, as it ran on a host.

    Args:
        folder: the folder to be made.
        host: the host's name; another host has other runs.
        model: its processor; another model has other cells.
        slower: factor of all times of epochs.
        torch: the version of the framework.
        digest: of the data; by default that of the recorded runs.
        started: the day of the runs.
        threads: threads of each trial; another number has other cells.
        machine_id: distinguishes machines of the same name.
    """
    shutil.copytree(RECORDED, folder)
    grid = Path(folder) / GRID
    events = [json.loads(line) for line in (grid / "journal.jsonl").read_text().splitlines()]
    ids = {}
    for event in events:
        if event["event"] == "trial_started":
            event["host"] |= {"name": host, "boot": f"boot of {host}", "machine_id": machine_id}
            event["run"] = uuid.uuid5(uuid.NAMESPACE_DNS, event["run"] + host + machine_id).hex
            event["versions"]["torch"] = torch
            event["cell"]["device"] |= {"model": model, "threads": threads}
            if digest:
                event["cell"]["data"]["digest"] = digest
            ids[event["trial"].partition("-")[0]] = cell_id(event["cell"])
        elif isinstance(event.get("host"), str):
            event["host"] = host
        elif event["event"] == "epoch_ended":
            event["ledger"] = {name: seconds * slower for name, seconds in event["ledger"].items()}
            event["step_s"] = [seconds * slower for seconds in event["step_s"]]
        elif event["event"] == "grid_ended":
            (execution,) = (grid / "executions").iterdir()
            event["execution"] = event["execution"].replace(" vm ", f" {host}{machine_id} ")
            event["folder"] = (
                event["folder"].replace("-vm-", f"-{host}{machine_id}-").replace("2026-11-23T", f"{started}T")
            )
            execution = execution.rename(grid / "executions" / event["folder"])
            plan = (execution / "plan.json").read_text().replace("AMD EPYC", model)
            plan = plan.replace('"threads": 2', f'"threads": {threads}')
            plan = plan.replace("sha256:03d55907", digest or "sha256:03d55907")
            (execution / "plan.json").write_text(replaced(plan, ids))
    text = "".join(json.dumps(event, separators=(",", ":")) + "\n" for event in events)
    (grid / "journal.jsonl").write_text(replaced(text, ids).replace("2026-11-23T", f"{started}T"))
    return Path(folder)


def replaced(text, words):
    """A text with words replaced."""
    for old, new in words.items():
        text = text.replace(old, new)
    return text


def journal_of(results):
    """The journal of the quick start in a results folder."""
    return results / GRID / "journal.jsonl"


def every_file(folder):
    """The content of each file below a folder, by its path."""
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
