"""A training loop and its `Trial`: epochs, steps, evaluations, metrics, and errors of use."""

import itertools
import math
import os
import sys
import time

import numpy as np
import pytest
import torch
from support.recorded_trial import make_trial

from raybench.core.job import Budget, Target
from raybench.core.rank import Rank, set_rank
from raybench.engines.loop_facts import LoopFacts
from raybench.training.epoch_record import Diverged
from raybench.training.trial import NOT_JOINED

BATCHES = [(np.zeros((4, 2)), np.zeros(4))] * 5


def test_epoch_numbers_in_loop_and_journal():
    trial, kept, _ = make_trial(3)
    assert list(trial.epochs()) == [0, 1, 2]
    assert [epoch["epoch"] for epoch in kept.epochs] == [1, 2, 3]
    assert kept.more == [True, True, False]
    assert "steps" not in kept.epochs[0], "what is not measured is absent, never 0"
    assert "examples" not in kept.epochs[0]


@pytest.mark.parametrize("joined", [False, True])
def test_processes_that_never_join_are_a_warning(monkeypatch, joined):
    for name in ("jax", "tensorflow", "torch_xla"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: joined)
    trial, kept, _ = make_trial(2, world_size=2)
    assert list(trial.epochs()) == [0, 1]
    assert kept.warnings == ([] if joined else [NOT_JOINED])


def test_steps_counts_steps_and_examples():
    trial, kept, _ = make_trial(2)
    for _ in trial.epochs():
        assert len(trial.steps(BATCHES)) == 5
        assert sum(len(targets) for _, targets in trial.steps(BATCHES)) == 20
    assert [(epoch["steps"], epoch["examples"]) for epoch in kept.epochs] == [(5, 20)] * 2
    assert len(kept.epochs[1]["step_s"]) == 5
    assert len(kept.epochs[0]["step_s"]) == 4, "the first step is partly compilation"


def test_a_batch_may_be_a_stack_of_several_steps(sleep):
    trial, kept, _ = make_trial(2)
    for _ in trial.epochs():
        for stack in trial.steps([BATCHES[:2], BATCHES[:3], BATCHES[:3]], examples=4, steps=len):
            sleep(len(stack))
    assert [(epoch["steps"], epoch["examples"]) for epoch in kept.epochs] == [(8, 32)] * 2
    assert kept.epochs[1]["step_s"] == [1.0] * 3, "seconds of a step, not of a call"


def test_time_goes_to_its_section(sleep):
    trial, kept, ledger = make_trial(1)

    def slow():
        for batch in BATCHES[:3]:
            sleep(2)
            yield batch

    with trial.section("data"):
        sleep(3)
    sleep(5)
    for _ in trial.epochs():
        sleep(7)
        for _ in trial.steps(slow()):
            sleep(1)
        with trial.evaluation():
            sleep(11)
        with trial.section("checkpoint"):
            sleep(13)
    sleep(17)
    with trial.evaluation("test"):
        sleep(19)
    total, _ = ledger.close()
    (epoch,) = kept.epochs
    of_epoch = {"train": 10, "input_wait": 6, "evaluate": 11, "checkpoint": 13}
    assert {name: epoch["ledger"][name] for name in of_epoch} == of_epoch
    assert [total[name] for name in ("data", "build", "other", "evaluate")] == [3, 5, 17, 11 + 19]


def test_evaluation_between_steps_is_not_a_step(sleep):
    trial, kept, _ = make_trial(1)
    for _ in trial.epochs():
        for number, _ in enumerate(trial.steps(BATCHES)):
            sleep(1)
            if number == 2:
                with trial.evaluation():
                    sleep(50)
                trial.log({"val/accuracy": 0.25, "train/loss": 1.0})
        with trial.evaluation():
            sleep(2)
        trial.log({"val/accuracy": 0.5})
    (epoch,) = kept.epochs
    assert max(epoch["step_s"]) == 1
    assert epoch["ledger"]["evaluate"] == 52
    assert epoch["metrics"] == {"val/accuracy": 0.5, "train/loss": 1.0}


def test_first_step_beyond_the_others_is_compilation(sleep):
    trial, kept, _ = make_trial(1)
    for _ in trial.epochs():
        for number, _ in enumerate(trial.steps(BATCHES)):
            sleep(1 if number else 10)
    (epoch,) = kept.epochs
    assert (epoch["ledger"]["compile"], epoch["ledger"]["train"]) == (9, 5)


def test_an_error_is_in_the_innermost_section(sleep):
    trial, _, ledger = make_trial(1)
    with pytest.raises(KeyError), trial.section("data"), trial.section("checkpoint"):
        raise KeyError
    assert ledger.phase == "checkpoint"
    sleep(5)
    with trial.section("data"):
        assert ledger.phase == "data", "the error was caught"
    assert ledger.close()[0]["build"] == 5


def test_compilation_in_a_section_counts_once(sleep, monkeypatch):
    monkeypatch.setattr(LoopFacts, "counts_compilation", True)
    monkeypatch.setattr(LoopFacts, "compile_ns", lambda loop: round(min(time.perf_counter(), 10) * 1e9))
    trial, kept, _ = make_trial(1)
    for _ in trial.epochs():
        with trial.evaluation():
            with trial.section("compile"):
                sleep(10)
            sleep(5)
        sleep(20)
    ledger = kept.epochs[0]["ledger"]
    assert [ledger[name] for name in ("compile", "evaluate", "train")] == [10, 5, 20]
    assert "compile_evaluate" not in ledger


def test_compilation_in_an_evaluation_is_not_that_of_training(sleep, monkeypatch):
    monkeypatch.setattr(LoopFacts, "counts_compilation", True)
    monkeypatch.setattr(LoopFacts, "compile_ns", lambda loop: round(min(time.perf_counter(), 10) * 1e9))
    trial, kept, _ = make_trial(1)
    for _ in trial.epochs():
        with trial.evaluation():
            sleep(15)
        sleep(20)
    ledger = kept.epochs[0]["ledger"]
    assert [ledger[name] for name in ("compile", "train", "compile_evaluate", "evaluate")] == [0, 20, 10, 5]


def test_device_work_counts_where_it_began(monkeypatch, sleep):
    """A device that computes in the background: whoever ends a section, an epoch or what is before it waits for it."""
    due_s = [20.0]
    wait = lambda device: sleep(max(0.0, due_s[0] - time.perf_counter()))  # noqa: E731
    monkeypatch.setattr("raybench.devices.no_framework.Cpu.synchronize", wait)
    trial, kept, ledger = make_trial(2)
    for _ in trial.epochs():
        due_s[0] = time.perf_counter() + 10
        with trial.evaluation():
            due_s[0] = time.perf_counter() + 5
    assert [(epoch["ledger"]["train"], epoch["ledger"]["evaluate"]) for epoch in kept.epochs] == [(10, 5)] * 2
    assert ledger.close()[0]["build"] == 20, "what was submitted before the first epoch"


def test_an_epoch_of_ranks_begins_and_ends_with_the_slowest(sleep):
    set_rank(Rank(0, 2, meet=lambda value: sleep(3)))
    try:
        trial, kept, ledger = make_trial(1, world_size=2)
        for _ in trial.epochs():
            sleep(10)
    finally:
        set_rank(Rank())
    assert (ledger.close()[0]["build"], kept.epochs[0]["ledger"]["train"]) == (3, 13)


def test_an_epoch_ends_after_steps_per_epoch():
    trial, kept, _ = make_trial(2, steps_per_epoch=3)
    seen = [list(trial.steps(range(5), examples=7)) for _ in trial.epochs()]
    assert seen == [[0, 1, 2], [0, 1, 2]]
    assert kept.epochs[0]["examples"] == 21


def test_an_iterator_goes_on_in_the_next_epoch():
    trial, _, _ = make_trial(2, steps_per_epoch=3)
    stream = itertools.count()
    assert [list(trial.steps(stream, examples=1)) for _ in trial.epochs()] == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("sized", [True, False])
def test_fractional_last_epoch_is_shorter(sized):
    trial, kept, _ = make_trial(1.4)
    batches = (lambda: BATCHES) if sized else (lambda: (batch for batch in BATCHES))
    assert [len(list(trial.steps(batches()))) for _ in trial.epochs()] == [5, 2]
    assert [epoch["steps"] for epoch in kept.epochs] == [5, 2]


def test_steps_alone_are_the_whole_training():
    trial, kept, _ = make_trial(2.5, steps_per_epoch=4)
    assert list(trial.steps(range(3), examples=1)) == [0, 1, 2, 0, 1, 2, 0, 1, 2, 0]
    assert [epoch["steps"] for epoch in kept.epochs] == [4, 4, 2]


def test_count_counts_what_steps_cannot_see():
    trial, kept, _ = make_trial(1)
    for _ in trial.epochs():
        for _ in trial.steps(BATCHES):
            trial.count(tokens=torch.tensor(100))
        trial.count(steps=10, examples=400)
    assert {name: kept.epochs[0][name] for name in ("steps", "examples", "units")} == {
        "steps": 15,
        "examples": 420,
        "units": {"tokens": 500},
    }


def test_the_optimizer_is_observed_once_an_epoch():
    trial, kept, _ = make_trial(2, "torch")
    weight = torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1, weight_decay=0.01)
    for _ in trial.epochs():
        for number, _ in enumerate(trial.steps(BATCHES)):
            weight.sum().backward()
            if number % 2:  # accumulated gradients
                optimizer.step()
        optimizer.param_groups[0]["lr"] /= 2
    assert [epoch["optimizer_steps"] for epoch in kept.epochs] == [2, 2]
    settings = [{"class": "SGD", "lr": rate, "weight_decay": 0.01} for rate in (0.1, 0.05)]
    assert [epoch["optimizers"] for epoch in kept.epochs] == [[each] for each in settings]


def test_training_ends_at_the_target():
    trial, kept, _ = make_trial(9, target=Target("val/accuracy", at_least=0.5), stop_at_target=True)
    for epoch in trial.epochs():
        if epoch % 2:  # evaluated in every other epoch
            trial.log({"val/accuracy": epoch / 6})
    assert len(kept.epochs) == 4
    assert kept.more == [True, True, True, False]


def test_fractional_target_ignores_accuracy_in_percent():
    trial, kept, _ = make_trial(3, target=Target("val/accuracy", at_least=0.6), stop_at_target=True)
    message = r"val/accuracy is 1.02, so it is in percent, and the target 0.6 a fraction.*at_least: 60"
    with pytest.raises(ValueError, match=message):
        for epoch in trial.epochs():
            trial.log({"val/accuracy": [1.0, 1.02, 1.0][epoch]})
    assert [epoch["metrics"]["val/accuracy"] for epoch in kept.epochs] == [1.0, 1.02]


@pytest.mark.parametrize(
    ("bound", "logged"), [(0.6, [0.3, 0.6, 0.7]), (60, [1.0, 60.0, 70.0]), (0.6, [0.5, 0.999, 1.0])]
)
def test_target_in_the_logged_unit_ends_training(bound, logged):
    trial, kept, _ = make_trial(3, target=Target("val/accuracy", at_least=bound), stop_at_target=True)
    for epoch in trial.epochs():
        trial.log({"val/accuracy": logged[epoch]})
    assert len(kept.epochs) == 2


@pytest.mark.parametrize(
    ("budget", "epochs", "trained"),
    [
        ({"seconds": 12}, None, [(5, 0), (5, 0), (2, 1)]),  # inside of an epoch: (steps, partial)
        ({"seconds": 10}, None, [(5, 0), (5, 0)]),
        ({"seconds": 99}, 2, [(5, 0), (5, 0)]),
        ({"seconds": 0.5}, None, [(1, 1)]),
        ({"joules": 19}, None, [(5, 0), (4, 1)]),
        ({"work": 28, "unit": "examples"}, None, [(5, 0), (2, 1)]),  # 4 in a batch
        ({"work": 40, "unit": "examples"}, None, [(5, 0), (5, 0)]),
    ],
)
def test_a_budget_ends_training_after_a_step(sleep, budget, epochs, trained):
    joules = lambda: 1000 + 2 * time.perf_counter()  # noqa: E731
    trial, kept, _ = make_trial(epochs, budget=Budget(**budget), read_joules=joules if "joules" in budget else None)

    class Slow(list):
        def __iter__(self):
            for batch in super().__iter__():
                sleep(0.25)
                yield batch

    for _ in trial.epochs(1):
        for _ in trial.steps(Slow(BATCHES)):
            sleep(0.75)
        with trial.evaluation():
            sleep(1)
    assert [(epoch["steps"], int(epoch.get("partial", False))) for epoch in kept.epochs] == trained
    assert [epoch["ledger"]["evaluate"] for epoch in kept.epochs] == [1.0] * len(trained)
    assert not kept.more[-1] and not kept.warnings


@pytest.mark.parametrize(("ranks", "last"), [(1, 200), (2, 500)])
def test_a_budget_of_tokens_that_the_loops_of_all_ranks_count(ranks, last):
    """Ranks end with an epoch, as they must all end at once."""
    trial, kept, _ = make_trial(None, world_size=ranks, budget=Budget(work=700 * ranks, unit="tokens"))
    for _ in trial.epochs():
        for _ in trial.steps(BATCHES):
            trial.count(tokens=100)
    assert [epoch["units"]["tokens"] for epoch in kept.epochs] == [500, last]


@pytest.mark.parametrize("with_compile", [True, False])
def test_a_budget_with_and_without_compilation(sleep, with_compile):
    trial, kept, _ = make_trial(None, budget=Budget(seconds=8, compile=with_compile))
    for epoch in trial.epochs():
        for number, _ in enumerate(trial.steps(BATCHES)):
            sleep(1 if epoch or number else 7)
    assert sum(epoch["steps"] for epoch in kept.epochs) == (2 if with_compile else 8)


def test_without_steps_a_budget_ends_training_after_an_epoch(sleep):
    trial, kept, _ = make_trial(None, budget=Budget(seconds=5))
    for _ in trial.epochs(1):
        sleep(2)
    assert [epoch["ledger"]["train"] for epoch in kept.epochs] == [2.0] * 3
    assert not any(epoch.get("partial") for epoch in kept.epochs)


def test_infinite_loss_ends_training_after_its_epoch():
    trial, kept, _ = make_trial(3)
    with pytest.raises(Diverged, match="train/loss is nan in epoch 2"):
        for epoch in trial.epochs():
            trial.log({"train/loss": math.nan if epoch else 1.0, "val/perplexity": math.inf})
    assert [epoch["metrics"] for epoch in kept.epochs] == [{"train/loss": 1.0}, {}]
    assert kept.warnings[0] == "val/perplexity is inf, and was left out"


def test_training_continues_after_an_earlier_attempts_epochs():
    trial, kept, _ = make_trial(4, done=2)
    trial.checkpoint(print, print)
    assert list(trial.epochs()) == [2, 3]
    assert [epoch["epoch"] for epoch in kept.epochs] == [3, 4]


def test_epoch_left_after_its_steps_counts():
    trial, kept, _ = make_trial(5)
    for epoch in trial.epochs():
        for _ in trial.steps(BATCHES):
            pass
        if epoch == 1:
            break
    trial.log({"test/accuracy": 0.5})
    trial.finish()
    assert [epoch["steps"] for epoch in kept.epochs] == [5, 5]
    assert kept.epochs[1]["metrics"] == {"test/accuracy": 0.5}
    assert kept.warnings == ["the loop was left after epoch 2 of 5"]


def test_epoch_left_in_a_step_does_not_count():
    trial, kept, _ = make_trial(5)

    def train():
        for epoch in trial.epochs():
            for _ in trial.steps(BATCHES):
                if epoch == 1:
                    return

    train()
    trial.finish()
    assert len(kept.epochs) == 1
    assert kept.warnings == ["the loop was left in epoch 2 of 5; that epoch does not count"]


AFTER_THE_STEPS = {
    "evaluation": lambda trial: trial.evaluation().__enter__(),
    "section": lambda trial: trial.section("checkpoint").__enter__(),
    "log": lambda trial: trial.log({"val/accuracy": 0.95}),
    "count": lambda trial: trial.count(tokens=1),
    "steps": lambda trial: list(trial.steps(BATCHES)),
}


@pytest.mark.parametrize("use", AFTER_THE_STEPS)
def test_epoch_continued_after_a_break_counts(use):
    trial, kept, _ = make_trial(5)
    for epoch in trial.epochs():
        for number, _ in enumerate(trial.steps(BATCHES)):
            if number == 2:
                break
        AFTER_THE_STEPS[use](trial)
        if epoch == 1:
            break
    trial.finish()
    assert [epoch["steps"] for epoch in kept.epochs] == [8 if use == "steps" else 3] * 2
    assert kept.warnings == ["the loop was left after epoch 2 of 5"]


@pytest.mark.parametrize("limit", [None, 3])
@pytest.mark.parametrize("alone", [False, True])
def test_loop_left_in_last_step_completes_the_epoch(limit, alone):
    trial, kept, _ = make_trial(5, steps_per_epoch=limit)
    steps = trial.steps(BATCHES) if alone else (batch for _ in trial.epochs() for batch in trial.steps(BATCHES))
    for number, _ in enumerate(steps, 1):
        if number == 2 * (limit or len(BATCHES)):
            break
    del steps
    trial.finish()
    assert [epoch["steps"] for epoch in kept.epochs] == [limit or len(BATCHES)] * 2
    assert kept.warnings == ["the loop was left after epoch 2 of 5"]


def test_loop_left_with_infinite_loss_has_diverged():
    trial, kept, _ = make_trial(5)
    for _ in trial.epochs():
        trial.log({"train/loss": math.inf})
        break
    with pytest.raises(Diverged, match="train/loss is inf in epoch 1"):
        trial.finish()
    assert len(kept.epochs) == 1


@pytest.mark.parametrize("leaves", [False, True])
def test_infinite_loss_after_last_epoch_is_diverged(leaves):
    trial, kept, _ = make_trial(2)
    for epoch in trial.epochs():
        if leaves and epoch == 1:
            break
    trial.log({"test/loss": math.nan, "test/accuracy": 0.5})
    with pytest.raises(Diverged, match="test/loss is nan after the last epoch"):
        trial.finish()
    assert len(kept.epochs) == 2
    assert kept.later == {"test/accuracy": 0.5}


def twice(trial):
    list(trial.epochs())
    trial.epochs()


def steps_in_evaluation(trial):
    for _ in trial.epochs():
        with trial.evaluation():
            list(trial.steps(BATCHES))


ERRORS = {
    "a second epochs()": (twice, RuntimeError, "a second time"),
    "log before": (lambda trial: trial.log({"val/a": 1}), RuntimeError, "before the first epoch"),
    "evaluation before": (lambda trial: trial.evaluation().__enter__(), RuntimeError, "before the first epoch"),
    "count outside": (lambda trial: trial.count(tokens=1), RuntimeError, "outside of an epoch"),
    "section": (lambda trial: trial.section("train").__enter__(), ValueError, "use one of data, build, compile"),
    "steps after": (lambda trial: [list(trial.epochs()), list(trial.steps([1]))], RuntimeError, "after the last epoch"),
    "steps in evaluation": (steps_in_evaluation, RuntimeError, "it counts batches of training"),
    "no amount": (lambda t: [t.count(n=math.nan) for _ in t.epochs()], ValueError, r"trial\.count\(n=…\): the sum"),
    "checkpoint after": (lambda t: [t.epochs(), t.checkpoint(print, print)], RuntimeError, "call it before"),
    "no number": (lambda t: [t.log({"val/a": "x"}) for _ in t.epochs()], TypeError, "val/a: expected a number, not a"),
    "no split": (lambda t: [t.log({"loss": 1}) for _ in t.epochs()], ValueError, "'train/loss' or 'val/loss'"),
    "no unit": (lambda t: [t.count(tokens="x") for _ in t.epochs()], TypeError, r"trial\.count\(tokens=…\): expected"),
    "no batch": (lambda t: [list(t.steps(iter(()))) for _ in t.epochs()], RuntimeError, "no batch in this epoch"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_wrong_use_names_the_remedy(name):
    use, kind, message = ERRORS[name]
    trial, _, _ = make_trial(2)
    with pytest.raises(kind, match=message):
        use(trial)


def test_the_number_of_epochs_has_to_be_known():
    trial, _, _ = make_trial(None)
    with pytest.raises(ValueError, match="how many epochs"):
        trial.epochs()
    assert list(make_trial(None)[0].epochs(2)) == [0, 1]


def test_another_process_cannot_report():
    trial, _, _ = make_trial(1)
    pid = os.fork()
    if pid == 0:
        try:
            trial.epochs()
        except RuntimeError as error:
            os._exit(7 if "a different process" in str(error) else 1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
