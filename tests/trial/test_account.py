"""The account of a trial against a clock that is not its own."""

import time
from importlib import metadata

import pytest
from support.cells import make_cell

from raybench.core.job import Job
from raybench.core.settings import DEFAULTS
from raybench.devices.host import model_name, usable_cores
from raybench.workloads import read_workload


def make_job(folder, **settings):
    info, cores = read_workload("digits_cnn", folder), usable_cores()[:1]
    cell = make_cell(
        workload=info.identity(),
        data={"name": info.dataset or info.name, "digest": None, "examples": {"train": 8, "val": 4}},
        device={"kind": "cpu", "model": model_name(), "count": 1, "replicas": 1, "threads": 1},
        engine={"name": "torch", "version": 1, "framework_version": metadata.version("torch").rpartition(".")[0]},
        resolved={**DEFAULTS, **info.defaults, "framework": "torch", "epochs": 2, "batch_size": 2, **settings},
    )
    return Job("t-r0", 1, 0, 0, cell, info.to_json(), str(folder), str(folder / "attempt"), cores, timeout=900)


@pytest.mark.slow
@pytest.mark.parametrize(("where", "steps"), [("device", None), ("host", 1)])
def test_sections_fit_into_the_wall_time(fork_server, tmp_path, where, steps):
    template = fork_server()
    begun = time.perf_counter()
    told = list(template.run(make_job(tmp_path, input=where, steps_per_epoch=steps)))
    outside = time.perf_counter() - begun
    last, epochs = told[-1], [event for event in told if event["event"] == "epoch_ended"]
    assert last["status"] == "completed", last["error"]
    sections = last["ledger"]
    assert all(seconds >= 0 for seconds in sections.values())
    assert 0 < sum(sections.values()) == pytest.approx(last["wall"], abs=1e-5)
    assert last["wall"] <= outside
    for name in ("compile", "train", "input_wait", "evaluate"):
        assert sum(epoch["ledger"][name] for epoch in epochs) == pytest.approx(sections[name], abs=1e-5)
        assert sum(epoch["cpu"][name] for epoch in epochs) == pytest.approx(last["cpu"][name], abs=1e-5)
    assert [epoch["steps"] for epoch in epochs] == [steps or 4] * 2
    assert last["cpu"].keys() == sections.keys() and last["cpu"]["train"] + last["cpu"]["compile"] > 0
