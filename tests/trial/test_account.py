"""The account of a trial against a clock that is not its own: every workload, streamed or not, in calls or passes."""

import os
import time
from importlib import metadata
from itertools import product

import pytest
from frameworks import interpreter

from raybench.cell import DEFAULTS, make_cell
from raybench.devices.host import model_name, usable_cores
from raybench.engines import PACKAGES
from raybench.execution.process import TemplateProcess
from raybench.trial.job import Job
from raybench.workloads import read_reference, shipped

KINDS = {"torch": "cpu", "tensorflow": "cpu", "torch_xla": "xla_cpu"}
EXAMPLES = {"train": 8, "val": 4}
TRIES = 6
"""Other processes can only make the way from the trial to this one longer: the shortest of some counts."""

FAR_APART = [{"input": "device", "steps_per_epoch": None}, {"input": "host", "steps_per_epoch": 1}]
EVERY_MODE = [
    *({"input": where, "steps_per_epoch": steps} for where, steps in product(("device", "host"), (None, 1))),
    *({**mode, "compile": True} for mode in FAR_APART),
]


class Watched(TemplateProcess):
    """Notes when it begins to listen and when each message arrives, by this process's clock."""

    def run(self, job):
        self.began, self.arrived = None, []
        return super().run(job)

    def _read(self, deadline):
        if self.__dict__.get("began", 0) is None:  # the job has just been written
            self.began = time.perf_counter()
        message = super()._read(deadline)
        if "arrived" in self.__dict__:
            self.arrived.append((time.perf_counter(), message or {}))
        return message

    @property
    def outside(self):
        """Seconds from when the trial was asked for until it said that it was over."""
        (over,) = [at for at, message in self.arrived if message.get("event", {}).get("event") == "trial_ended"]
        return over - self.began


@pytest.fixture(scope="module")
def templates():
    kept = {}

    def of(framework):
        if framework not in kept:
            before = os.environ.get("XLA_FLAGS")
            os.environ["XLA_FLAGS"] = "--xla_backend_optimization_level=0"  # inherited: a fifth of the time to compile
            try:
                kept[framework] = Watched(framework, str(interpreter(framework)) if framework == "torch_xla" else "")
            finally:
                os.environ.pop("XLA_FLAGS") if before is None else os.environ.update(XLA_FLAGS=before)
        return kept[framework]

    yield of
    for template in kept.values():
        template.close()


def make_job(folder, data, workload, framework, **settings):
    info = read_reference(workload, folder)
    cores = usable_cores()[:1]
    package = PACKAGES[framework]
    version = "2.9" if framework == "torch_xla" else metadata.version(package).rpartition(".")[0]
    cell = make_cell(
        workload=info.identity(),
        data={"name": info.dataset or info.name, "digest": None, "examples": EXAMPLES},
        device={"kind": KINDS[framework], "model": model_name(), "count": 1, "replicas": 1, "threads": 1},
        engine={"name": framework, "version": 1, "framework_version": version},
        resolved={**DEFAULTS, **info.defaults, "framework": framework, "epochs": 2, "batch_size": 2, **settings},
    )
    return Job("t-r0", 1, 0, 0, cell, info.to_json(), str(data), str(folder / "attempt"), cores, timeout=900)


def cases():
    """One small workload in every mode; the others in the two that are furthest apart, and in TensorFlow, which takes
    long to trace the larger ones, in these by turns."""
    for number, (workload, framework) in enumerate(
        (workload, framework) for framework in ("torch", "tensorflow") for workload in shipped.names()
    ):
        if framework in shipped.get(workload).frameworks:
            turn = FAR_APART if framework == "torch" else [FAR_APART[number % 2]]
            for mode in EVERY_MODE if workload == "digits_cnn" else turn:
                yield framework, workload, mode
    for mode in EVERY_MODE:
        if "compile" not in mode:
            yield "torch_xla", "digits_cnn", mode


@pytest.mark.parametrize(("framework", "workload", "mode"), cases(), ids=str)
def test_sections_add_up_to_the_wall_time_that_others_see(templates, real_data, tmp_path, framework, workload, mode):
    template = templates(framework)
    for number in range(TRIES):
        told = list(template.run(make_job(tmp_path / str(number), real_data, workload, framework, **mode)))
        last, epochs = told[-1], [event for event in told if event["event"] == "epoch_ended"]
        assert last["status"] == "completed", last["error"]
        sections, outside = last["ledger"], template.outside
        assert all(seconds >= 0 for seconds in sections.values())
        assert sum(sections.values()) == pytest.approx(last["wall"], abs=1e-5)
        for name in ("compile", "train", "input_wait", "evaluate"):
            assert sum(epoch["ledger"][name] for epoch in epochs) == pytest.approx(sections[name], abs=1e-5)
            assert sum(epoch["cpu"][name] for epoch in epochs) == pytest.approx(last["cpu"][name], abs=1e-5)
        assert (sections["input_wait"] > 0) == (mode["input"] == "host")
        assert [epoch["steps"] for epoch in epochs] == [mode.get("steps_per_epoch") or 4] * 2
        assert last["cpu"].keys() == sections.keys() and last["cpu"]["train"] + last["cpu"]["compile"] > 0
        assert all(0 <= epoch["settle_s"]["train"] < outside for epoch in epochs)
        if abs(sum(sections.values()) - outside) <= max(0.005, 0.01 * outside):
            return
    pytest.fail(f"{sum(sections.values()):.4f} s in sections, {outside:.4f} s by another clock")
