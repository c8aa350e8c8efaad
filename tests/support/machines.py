"""Results of one grid on several machines: copies of the recorded quick start, as other hosts would have made them."""

import json
import uuid
from pathlib import Path

from raybench.core.cell import Cell
from raybench.results.archive import extracted, import_folder
from support import ROOT
from support.grid_files import events_of, write_events, write_request

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
    grid = Path(folder) / GRID
    events = events_of(RECORDED / GRID)
    ids, where = {}, f"{host}{machine_id}"
    for event in events:
        if event["event"] == "trial_started":
            event["host"] |= {"name": host, "boot": f"boot of {host}", "machine_id": machine_id}
            event["run"] = uuid.uuid5(uuid.NAMESPACE_DNS, event["run"] + where).hex
            event["origin"] = where
            event["versions"]["torch"] = torch
            event["cell"]["device"] |= {"model": model, "threads": threads}
            if digest:
                event["cell"]["data"]["digest"] = digest
            ids[event["trial"].partition("-")[0]] = Cell.from_json(event["cell"]).cell_id
        elif event["event"] == "check_ended":
            event["run"] = uuid.uuid5(uuid.NAMESPACE_DNS, event["trial"] + where).hex
        elif event["event"] == "epoch_ended":
            event["ledger"] = {name: seconds * slower for name, seconds in event["ledger"].items()}
            event["step_s"] = [seconds * slower for seconds in event["step_s"]]
    text = replaced(json.dumps(events), ids).replace("2026-11-23T", f"{started}T")
    write_events(grid, json.loads(text))
    (execution,) = (RECORDED / GRID / "executions").iterdir()
    plan = execution.read_text().replace("AMD EPYC", model).replace('"threads": 2', f'"threads": {threads}')
    plan = plan.replace("sha256:03d55907", digest or "sha256:03d55907").replace('"recorded"', f'"{where}"')
    name = execution.name.replace("-vm-", f"-{where}-").replace("2026-11-23T", f"{started}T")
    write_request(grid, Path(name).stem, json.loads(replaced(plan, ids)))
    return Path(folder)


def replaced(text, words):
    """A text with words replaced."""
    for old, new in words.items():
        text = text.replace(old, new)
    return text


def import_archive(path, results):
    """What `raybench import` does with a zip file."""
    with extracted(path) as source:
        return import_folder(source, results, str(path))


def every_file(folder):
    """The content of each file below a folder, by its path."""
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
