"""How long a trial will take, from earlier ones of like cells."""

import json

import pytest
from support.attempts import attempts
from support.made_up_grids import cell_of, told

from raybench.core.cell import Cell
from raybench.planning.estimate import Estimator

SETTINGS = {"compile": False, "steps_per_epoch": None, "input": "device"}
ONCE = 0.04 + 1.0 + 0.5 + 0.6 + 0.05
"""Setup, data, build, compilation and the rest of a made-up trial."""


def estimator(*ran):
    """Made-up trials of 4 epochs: cells and their seconds an epoch, of which a tenth goes to evaluation besides."""
    return Estimator(run for cell, second in ran for run in attempts(told(cell, 0, [second] * 4, [0.5] * 4)).values())


def cell(batch=256, threads=2, device="cpu", **further):
    made = json.loads(json.dumps(cell_of(device, batch, **{**SETTINGS, **further})))
    made["device"]["threads"] = threads
    return made


def seconds(known, asked):
    return known.seconds(Cell.from_json(asked))


def test_a_trial_takes_what_one_like_it_took():
    known = estimator((cell(), 2.0))
    assert seconds(known, cell()) == pytest.approx(ONCE + 4 * (2.0 + 0.01 + 0.2))
    longer = cell(epochs=8)
    assert seconds(known, longer) == pytest.approx(ONCE + 8 * (2.0 + 0.01 + 0.2))
    assert seconds(known, cell(weight_decay=0.0)) == seconds(known, cell()), "which costs no time"


def test_the_nearest_batch_counts():
    known = estimator((cell(64), 4.0), (cell(512), 1.0))
    assert seconds(known, cell(128)) == seconds(known, cell(64)) > 2 * seconds(known, cell(256)) > 0
    known = estimator((cell(64, steps_per_epoch=10), 4.0))
    assert seconds(known, cell(128, steps_per_epoch=10)) == pytest.approx(ONCE + 2 * 4 * (4.0 + 0.01 + 0.4))


@pytest.mark.parametrize(
    "other",
    [
        cell(threads=1),
        cell(device="gpu"),
        cell(precision="bf16"),
        cell(compile=True),
        cell(input="host"),
        cell(channels_last=True),
        cell(augmentation=["flip"]),
        cell() | {"workload": {**cell()["workload"], "digest": "b"}},
        cell() | {"device": {**cell()["device"], "devices": 2}},
    ],
    ids=["threads", "device", "precision", "compile", "input", "channels_last", "augmentation", "code", "devices"],
)
def test_what_was_run_otherwise_says_nothing(other):
    assert seconds(estimator((cell(), 2.0)), other) is None
    assert seconds(estimator(), other) is None


def test_a_trial_that_did_not_complete_says_nothing():
    failed = attempts(told(cell(), 0, [2.0] * 2, [0.5] * 2, "failed"))
    assert seconds(Estimator(failed.values()), cell()) is None


def test_estimate_of_a_command_with_equal_settings():
    def command(threads, learning_rate):
        made = cell(threads=threads)
        made["workload"]["form"] = "command"
        made["params"] = {"learning_rate": learning_rate}
        for unknown in ("batch_size", "epochs"):
            del made["settings"][unknown]
        return made

    known = estimator((command(1, 0.1), 2.0), (command(1, 0.1), 4.0), (command(2, 0.1), 7.0))
    assert seconds(known, command(1, 0.1)) == pytest.approx(ONCE + 4 * (1.1 * 3.0 + 0.01))
    assert seconds(known, command(2, 0.1)) == pytest.approx(ONCE + 4 * (1.1 * 7.0 + 0.01))
    assert seconds(known, command(1, 0.2)) is None
    cells = [Cell.from_json(command(1, rate)) for rate in (0.1, 0.2)]
    assert known.total_seconds(cells) == pytest.approx(2 * seconds(known, cells[0].to_json())), "assumed to be equal"


def test_total_is_scaled_to_trials_without_an_estimate():
    known = estimator((cell(64, 1), 1.0))
    cells = [Cell.from_json(cell(batch, threads)) for batch in (64, 128) for threads in (1, 2)]
    assert known.total_seconds(cells) == pytest.approx(2 * (known.seconds(cells[0]) + known.seconds(cells[2])))
    assert known.total_seconds([]) == 0 and estimator().total_seconds(cells) is None
