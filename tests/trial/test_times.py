"""A trial's times have in them what they say, and nothing else."""

import time

import pytest
from support.attempts import attempts
from support.jobs import make_job
from support.workloads.slow_parts import FIRST_EVALUATION

from raybench.core.job import Target
from raybench.devices.host import usable_cores
from raybench.results.run_table import training_s
from raybench.trial.run import run


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A trial whose first evaluation step is slow, and the seconds that it took."""
    folder = tmp_path_factory.mktemp("slow-parts")
    device, cores = {"count": 1}, usable_cores()[:1]
    job = make_job(folder, "workload", "slow_parts.py", device, threads=1, cores=cores, evaluation_batch_size=16)
    begun = time.perf_counter()
    events = []
    run(job, events.append)
    (attempt,) = attempts(events).values()
    assert attempt.status == "completed", attempt.error
    return attempt, time.perf_counter() - begun


@pytest.fixture
def trial(ran):
    """That trial."""
    return ran[0]


def test_compilation_of_evaluation_has_its_section(trial):
    assert trial.ledger["compile_evaluate"] > FIRST_EVALUATION / 2
    assert trial.epochs[0].ledger["compile_evaluate"] > FIRST_EVALUATION / 2
    assert trial.epochs[1].ledger.get("compile_evaluate", 0.0) == 0


def test_compilation_of_evaluation_is_not_training(trial):
    beyond = trial.wall - FIRST_EVALUATION
    assert trial.epochs_s < beyond
    assert trial.first_s < beyond
    assert training_s(trial.epochs_to(Target("val/accuracy", at_least=0.0))) < beyond


def test_sections_add_up_to_the_wall_time(ran):
    trial, seconds = ran
    assert sum(trial.ledger.values()) == pytest.approx(trial.wall, abs=1e-4)
    assert trial.wall < seconds
