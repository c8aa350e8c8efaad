import numpy as np
import pytest
from test_anova import grid
from test_verdict import cell

from raybench.analysis.comparison import PlannedCell
from raybench.analysis.reaching import goal, proven, reaching, to_target, what_decides
from raybench.analysis.results import attempts, latest
from raybench.analysis.sentences import plain
from raybench.analysis.sides import Side, pairs
from raybench.analysis.target import CENSORED, Try
from raybench.trial import events
from raybench.trial.job import Target

GOAL = Target("val/accuracy", 0.94, None)


def run(name, repeat, seconds, epochs, reached=True, status="completed", **settings):
    """A trial that reaches 94 % in its last epoch, or does not."""
    trial = f"{name}-r{repeat}"
    target = {"metric": "val/accuracy", "at_least": 0.94}
    told = [events.trial_started(trial, 1, cell=cell(name, **settings), target=target, host={"name": "node-1"})]
    for number in range(1, epochs + 1):
        metrics = {"val/accuracy": 0.95 if reached and number == epochs else 0.9}
        told.append(
            events.epoch_ended(
                trial, 1, epoch=number, steps=100, examples=1, ledger={"train": seconds / epochs}, metrics=metrics
            )
        )
    return [*told, events.trial_ended(trial, 1, status, wall=100.0, ledger={"setup": 0.0})]


def pair(*runs, baseline=None, which=1):
    cells = [PlannedCell(name, {"device": name, "batch_size": 256}, 3) for name in ("cpu", "gpu")]
    known = latest(attempts(event for one in runs for event in one).values())
    return pairs(cells, known, baseline or {"device": "cpu"})[which]


def said(*runs, **how):
    return [plain(told) for told in to_target(pair(*runs, **how))]


def test_goals_in_words():
    assert goal(GOAL) == "94 %"
    assert goal(Target("val/loss", None, 0.3)) == "val/loss of 0.3 or less"
    assert goal(Target("val/f1", 0.5, None)) == "val/f1 of 0.5 or more"


def test_a_ratio_where_the_epochs_are_alike():
    slow = [run("cpu", repeat, seconds, 20) for repeat, seconds in enumerate([40.0, 41.0, 42.0])]
    fast = [run("gpu", repeat, seconds, 20) for repeat, seconds in enumerate([20.0, 20.5, 21.0])]
    assert said(*slow, *fast) == [
        "gpu reaches 94 % in 3 of 3 runs (95 %: 44 to 100 %), after 20.5 s of training on average.",
        "cpu reaches 94 % in 3 of 3 runs (95 %: 44 to 100 %), after 41.0 s of training on average.",
        "To 94 % gpu is 2.00 × as fast as cpu (95 %: 1.89 to 2.11): both take as many epochs.",
    ]


def test_no_ratio_where_they_are_not():
    slow = [run("cpu", repeat, 40.0 + repeat, 20) for repeat in range(3)]
    fast = [run("gpu", repeat, 20.0 + repeat, 30) for repeat in range(3)]
    assert said(*slow, *fast)[2] == (
        "No ratio of times to 94 % is given: the epochs to it are shown to differ (gpu takes 1.50 × as many as cpu)."
    )
    assert "are not shown to be alike within 10 %" in said(slow[0], fast[0])[2]


def test_or_with_the_difference_named():
    slow = [run("cpu", repeat, 40.0 + repeat, 20) for repeat in range(3)]
    fast = [run("gpu", repeat, 20.0 + repeat, 30, precision="bf16") for repeat in range(3)]
    assert said(*slow, *fast)[2] == (
        "To 94 % gpu is 1.95 × as fast as cpu (95 %: 1.77 to 2.16): it takes 1.50 × as many epochs; they also "
        "differ in "
        "precision (bf16 against fp32)."
    )
    assert said(*fast, *slow, baseline={"device": "gpu"}, which=0)[2] == (
        "To 94 % cpu is 0.512 × as fast as gpu (95 %: 0.464 to 0.565): it takes 1.95 × as long; it takes 0.667 × as "
        "many "
        "epochs; they also differ in precision (fp32 against bf16)."
    )


def test_two_batches_are_compared_as_they_are():
    """What is compared is named by the two sides already."""
    batches = [(32, 20.0, 10), (64, 16.0, 14)]
    cells = [PlannedCell(f"b{batch}", {"device": "cpu", "batch_size": batch}, 3) for batch, *_ in batches]
    runs = [
        run(f"b{batch}", repeat, seconds + repeat / 10, epochs, batch=batch)
        for batch, seconds, epochs in batches
        for repeat in range(3)
    ]
    known = latest(attempts(event for one in runs for event in one).values())
    assert [plain(each) for each in to_target(pairs(cells, known, {"batch_size": 32})[1])][2] == (
        "To 94 % batch 64 is 1.25 × as fast as batch 32 (95 %: 1.23 to 1.26): it takes 1.40 × as many epochs."
    )


def test_misses_are_counted_and_paid_for():
    side = Side("gpu", 50, tries=(*[Try(74.0)] * 35, *[Try(74.0, CENSORED)] * 15))
    assert plain(reaching(side, GOAL)) == (
        "gpu reaches 94 % in 35 of 50 runs (95 %: 56 to 81 %), after 74.0 s of training: with restarts a success takes "
        "106 s (95 %: 91.5 to 132 s)."
    )


def test_never_reached_and_out_of_memory():
    missed = [run("gpu", repeat, 20.0, 30, reached=False) for repeat in range(2)]
    killed = run("gpu", 2, 20.0, 3, reached=False, status="oom")
    slow = [run("cpu", repeat, 40.0 + repeat, 20) for repeat in range(3)]
    told = said(*slow, *missed, killed)
    assert len(told) == 2, "and no ratio"
    assert told[0].startswith("gpu reaches 94 % in 0 of 3 runs (95 %: 0 to 56 %): a success takes at least")
    lost = run("gpu", 0, 20.0, 3, reached=False, status="lost")
    assert len(said(*slow, lost)) == 1, "what the machine broke shows nothing of the target"


def test_without_a_target_nothing_is_said():
    assert to_target(pairs([PlannedCell("cpu", {"device": "cpu"}, 1)], {}, {})[0]) == []


def shares(runs):
    return [(place, value / 100) for place, value in runs]


def test_is_it_the_device_the_decay_or_luck():
    told = [plain(each) for each in what_decides(shares(grid(np.random.default_rng(0), decay=2.0)), 10_000)]
    assert told[0].startswith("No effect of device on accuracy is shown (")
    assert (
        told[1].startswith("Accuracy depends on decay (9")
        and "5e-4 is" in told[1]
        and "points above 1e-4, all else" in told[1]
    )
    assert told[2].startswith("Luck: two runs of the same cell differ by up to 0.34 points")
    told = [plain(each) for each in what_decides(shares(grid(np.random.default_rng(0), both=2.0)))]
    assert "These effects do not add up: what one of device and decay does depends on the others." in told
    assert not any("all else alike" in each for each in told), "with each device it is another effect"
    assert sum("on average over all else" in each for each in told) == 2


def test_without_repeats_it_cannot_be_told():
    single = shares(grid(np.random.default_rng(0), decay=2.0, repeats=1))
    assert [plain(each) for each in what_decides(single)] == [
        "One run of each cell: nothing tells an effect on accuracy from luck."
    ]
    assert what_decides([]) == []
    assert what_decides([({"device": "cpu"}, 0.9)] * 2) == []


@pytest.mark.parametrize(
    ("accuracies", "says"),
    [
        ((0.9408, 0.9421, 0.9395, 0.9412), "94 % is not shown; about"),
        ((0.95, 0.951, 0.9505), ": 94 % is shown."),
        ((0.92, 0.93), "94 % is not shown."),
        ((0.95,), "one run proves no mean."),
    ],
)
def test_how_many_runs_prove_a_mean(accuracies, says):
    assert says in plain(proven(Side("gpu", 3, accuracies=accuracies), 0.94))


def test_no_accuracy_proves_nothing():
    assert proven(Side("gpu", 3), 0.94) is None
