"""Findings of runs under known conditions, and what they mean for an answer."""

import random
from dataclasses import replace

import pytest
from support.made_up_runs import MadeUpGrid, by_label, change_epochs, effect_of

from raybench.analysis.answer import TrustLevel
from raybench.analysis.findings.finding import findings as findings_of_runs
from raybench.analysis.findings.finding import kinds
from raybench.analysis.findings.slow_start import slow_start
from raybench.core.cell import Cell
from raybench.core.job import Target
from raybench.results.epoch import Epoch
from raybench.results.epochs import Epochs

HOST = {"cores": 2, "other_cpu_s": 0.0, "steal_s": 0.0, "own_cpu_s": 19.0}


def run(device="cpu", form=None, **fields):
    """One run on two cores, audited for ten seconds."""
    conditions = {"audit": {"seconds": 10.0, "host": HOST}} | fields
    grid = MadeUpGrid().add({"device": device}, [1.0], device={"kind": device, "count": 2}, form=form, **conditions)
    return grid.attempts[0]


def findings(*runs):
    """The findings of the last of some runs of one grid."""
    return findings_of_runs(runs)[id(runs[-1])]


def audit(**host):
    return {"seconds": 10.0, "host": HOST | host}


def gpu(reason, share):
    return {"seconds": 10.0, "host": HOST, "gpus": [{"throttled": {reason: share}}]}


def epochs(**fields):
    return Epochs(Epoch(number, None, 10, 640, {"train": 1.0}, **fields) for number in (1, 2, 3))


CASES = {
    "few_threads": {"runtime_conditions": {"threads": 1}},
    "busy_host": {"audit": audit(other_cpu_s=18.0)},
    "steal": {"audit": audit(steal_s=2.0)},
    "stopped": {"audit": audit(stopped_s=4.0)},
    "throttled": {"audit": audit(mhz={"first": 3000.0, "last": 2000.0})},
    "energy_shared": {"audit": audit() | {"energy": {"epochs": {"device_j": 5.0}, "others_share": 0.4}}},
    "unsynchronized_clock": {"epochs": epochs(settle_s={"train": 0.5})},
    "input_bound": {"epochs": Epochs(Epoch(n, None, 10, 640, {"train": 1.0, "input_wait": 1.0}) for n in (1, 2))},
    "output_buffered": {"epochs": epochs(epochs_in_read=3)},
    "short_epochs": {"clock": "output", "epochs": Epochs(Epoch(n, None, 0, 0, {"train": 0.002}) for n in (1, 2))},
    "few_steady_epochs": {"epochs": Epochs(Epoch(n, None, 10, 640, {"train": 8.0 / n}) for n in (1, 2))},
    "whole_run": {"clock": "run", "epochs": epochs()},
    "off_budget": {"cell": Cell(budget={"seconds": 9.0}), "epochs": epochs()},
    "accelerator_unused": {"device": "cuda", "form": "function", "epochs": epochs(memory_peak_bytes=0)},
    "memory_full": {"hardware": {"memory_bytes": 1000}, "epochs": epochs(memory_peak_bytes=960)},
    "short_warmup": {
        "epochs": Epochs(
            Epoch(n, None, 10, 640, {"train": 2.0 if n < 10 else 1.0 + n % 2 / 100}, step_s=()) for n in range(1, 41)
        )
    },
}


@pytest.mark.parametrize("code", sorted(CASES))
def test_condition_is_found(code):
    found = {each.code: each for each in findings(run(**CASES[code]))}
    assert code in found
    assert found[code].text
    assert found[code].remedy


def test_quiet_run_has_no_finding():
    assert findings(run()) == ()


def test_slow_steps_on_a_busy_host_are_no_short_warmup():
    found = findings(run(**CASES["short_warmup"], audit=audit(other_cpu_s=15.0)))
    assert {each.code for each in found} == {"busy_host"}


def test_every_kind_is_tested():
    of_several_runs = {
        "other_decay",
        "cores_shared",
        "optimizer_unchanged",
        "no_effect",
        "seed_unused",
        "slow_runs",
        "other_batch_size",
    }
    of_runs = {code for code, kind in kinds().items() if not (kind.of_answer or kind.of_pair)}
    assert of_runs == CASES.keys() | of_several_runs


@pytest.mark.parametrize("share", [float("inf"), -1.0, 1e9])
def test_damaged_audit_gives_no_size(share):
    (finding, *_) = findings(run(audit=audit(other_cpu_s=share * 20)))[:1] or [None]
    assert finding is None or finding.too_long is None or finding.too_long < 1e6


@pytest.mark.parametrize(("taken", "own", "lost"), [(15.0, 5.0, 1.0), (18.0, 5.0, 1.0), (18.0, 0.4, None)])
def test_one_thread_loses_no_more_than_it_waited(taken, own, lost):
    conditions = {"audit": audit(other_cpu_s=taken, own_cpu_s=own), "runtime_conditions": {"threads": 1}}
    found = {each.code: each.too_long for each in findings(run(**conditions))}
    assert found.get("busy_host") == (lost and pytest.approx(lost)), "what only waits loses nothing"


@pytest.mark.parametrize(("host", "share"), [("node-1", 0.25), ("node-2", None)])
def test_runs_at_the_same_time_share_their_machine(host, share):
    first, second = run(run="a"), run(run="b")
    first.host, second.host = {"name": "node-1"}, {"name": host}
    first.started, first.ended = "2026-01-01T00:00:00Z", "2026-01-01T00:02:00Z"
    second.started, second.ended = "2026-01-01T00:01:30Z", "2026-01-01T00:03:30Z"
    assert [(each.code, each.too_long) for each in findings(first, second)] == [("cores_shared", share)][: bool(share)]
    assert findings(second, replace(second, trial="again")) == (), "one run may be in both versions"


def test_unused_settings_are_found():
    optimizers = ({"class": "SGD", "lr": 0.1, "weight_decay": 0.0},)
    grid = MadeUpGrid()
    for decay in (0.0, 5e-4):
        grid.add({"weight_decay": decay}, [1.0, 1.0], form="function")
    for speed, each in enumerate(grid.attempts):  # what a program prints of its speed differs
        metrics = {"a": 0.1, "b": 0.2, "c": 0.3, "speed/tokens_per_s": speed}
        each.epochs = epochs(optimizers=optimizers, metrics=metrics)
    trust = grid.answer().trust
    assert {"optimizer_unchanged", "seed_unused"} <= {each.code for each in trust.cautions}
    assert "no_effect" in {each.code for each in trust.notes}


@pytest.mark.parametrize("has_seeds", [True, False])
@pytest.mark.parametrize("metric", ["train/loss", "val/accuracy"])
def test_runs_that_repeat_one_another_have_no_interval(metric, has_seeds):
    grid = MadeUpGrid()
    for batch, loss in ((32, 0.5), (64, 0.7)):
        metrics = {"train/loss": loss} | ({} if metric == "train/loss" else {"a": 0.1, metric: loss + 0.1})
        grid.add({"batch_size": batch}, times(1.0))
        for run in grid.attempts[-3:]:
            change_epochs(run, metrics=metrics)
    for run in () if has_seeds else grid.attempts:
        run.seed = None
    answer = grid.answer()
    (effect,) = answer.effects
    assert effect.quality[metric].low is None and effect.speed.low is not None
    assert answer.best[0].quality.low is answer.configurations[1].quality_difference.low is None
    assert answer.configurations[0].quality.low is None


def test_batch_of_a_different_size_is_found():
    grid = MadeUpGrid().add({"batch_size": 32}, [1.0], form="function")
    grid.attempts[0].epochs = epochs()  # 64 examples per step
    assert "other_batch_size" in {each.code for each in findings(grid.attempts[0])}


def test_slow_start():
    chance = random.Random(0)
    times = [(1.5 if number < 8 else 1.0) * chance.gauss(1, 0.02) for number in range(64)]
    start = slow_start(times)
    assert start.slower == pytest.approx(1.5, rel=0.05)
    assert start.part == pytest.approx(1 / 8)
    assert slow_start(times[8:]) is None
    assert slow_start(times[::-1]) is None
    assert slow_start([]) is None


def times(value, runs=3):
    return [value * (1 + 0.003 * number) for number in range(runs)]


def busy(taken):
    return {"audit": audit(other_cpu_s=taken)}


def test_caution_marks_every_row_that_it_concerns():
    grid = MadeUpGrid().add({"device": "cpu"}, times(1.3), **busy(6.0)).add({"device": "b"}, times(1.0))
    answer = grid.add({"device": "c"}, times(9.0)).answer()
    (caution,) = answer.trust.cautions
    assert (caution.code, caution.mark, caution.runs, caution.of_runs) == ("busy_host", "a", 3, 9)
    assert "0.6 of 2 cores" in caution.text
    assert [each.cautions for each in answer.configurations] == [("a",)] * 3, "also of ratios to it"
    assert effect_of(answer, "device", "b").cautions == ("a",)
    assert effect_of(answer, "device", "c").cautions == ("a",), "its size could be wrong, although not its sign"


def test_decay_that_acts_differently_marks_its_device():
    """It is about the quality, which only decides with a target or a budget."""
    failed = {"passed": False, "factor": 8.0, "says": "failed: acts as 8 × λ"}
    for target, level in ((None, TrustLevel.CAUTIONS), (Target("val/accuracy", 0.94), TrustLevel.DOUBTFUL)):
        grid = MadeUpGrid(target=target).add({"device": "cpu"}, times(2.0))
        settings = {"weight_decay": 5e-4}
        answer = grid.add({"device": "tpu"}, times(1.0), decay_check=failed, settings=settings).answer()
        (caution,) = answer.trust.cautions
        assert (caution.code, caution.text) == (
            "other_decay",
            "the check of the worst run's weight decay failed: acts as 8 × λ",
        )
        assert [each.cautions for each in answer.configurations] == [(), ("a",)]
        assert answer.trust.level is level


@pytest.mark.parametrize("compared", [True, False])
def test_energy_of_other_programs_is_a_caution_if_energy_is_compared(compared):
    grid = MadeUpGrid()
    for device, joules, others in (("a", 100.0, 0.0), ("b", 60.0, 0.4)):
        energies = [joules] * 3 if compared or device == "b" else None
        grid.add({"device": device}, times(1.0), device={"kind": "cpu"}, joules=energies)
        for run in grid.attempts[-3:] if energies else ():
            run.audit["energy"] |= {"others_share": others, "epochs": {"device_j": 4 * joules}}
    trust = grid.answer().trust
    assert ("energy_shared" in {each.code for each in trust.cautions}) is compared
    assert ("energy_shared" in {each.code for each in trust.notes}) is not compared


def test_work_that_is_not_counted_marks_what_it_could_change():
    grid = MadeUpGrid()
    for device in ("cpu", "gpu"):
        for batch in (32, 64):
            grid.add({"device": device, "batch_size": batch}, times(batch), examples=0)
    answer = grid.answer()
    assert [(each.code, each.mark) for each in answer.trust.cautions] == [("work_not_counted", "a")]
    assert [each.cautions for each in answer.configurations] == [(), ("a",), (), ("a",)]
    assert {each.axis: each.cautions for each in answer.effects} == {"device": (), "batch_size": ("a",)}


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [("examples", 0, "the work of their epochs is unknown"), ("ledger", {}, "no time above 0 s is known")],
)
def test_each_run_that_is_not_compared_is_counted(field, value, said):
    grid = MadeUpGrid().add({"device": "cpu"}, times(2.0), examples=2000).add({"device": "gpu"}, times(1.0))
    change_epochs(grid.attempts[-1], **{field: value})
    caution = next(each for each in grid.answer().trust.cautions if each.code == "not_compared")
    assert (caution.runs, caution.of_runs, caution.configurations) == (1, 6, (1,))
    assert said in caution.text


def test_every_configuration_with_a_metric_that_is_no_number_is_marked():
    grid = MadeUpGrid()
    for device in ("cpu", "a", "b"):
        grid.add({"device": device}, times(1.0), accuracies=(0.5, 0.8, 0.9, 0.95 if device == "cpu" else float("nan")))
    (caution,) = (each for each in grid.answer().trust.cautions if each.code == "metric_not_a_number")
    assert caution.configurations == (1, 2)


def test_caution_that_could_turn_the_best_is_red():
    grid = MadeUpGrid().add({"device": "cpu"}, times(1.3), **busy(18.0)).add({"device": "b"}, times(1.0))
    answer = grid.answer()
    assert answer.trust.level is TrustLevel.DOUBTFUL
    assert answer.best[0].cautions == ("a",)
    assert by_label(answer)["cpu"].cautions == ("a",)
    grid = MadeUpGrid().add({"device": "cpu"}, [1.0, 50.0, 3.0], **busy(3.0)).add({"device": "b"}, [2.0, 9.0, 1.0])
    assert grid.answer().trust.level is TrustLevel.DOUBTFUL, "noise alone could turn it"


def test_caution_about_a_size_leaves_the_best():
    grid = MadeUpGrid().add({"device": "cpu"}, times(100.0), **busy(3.0)).add({"device": "b"}, times(1.0))
    answer = grid.answer()
    assert answer.trust.level is TrustLevel.CAUTIONS
    assert [(each.code, each.could_change_best) for each in answer.trust.cautions] == [("busy_host", False)]
    assert answer.best[0].cautions == ("a",)


def test_doubt_withholds_what_limits():
    peaks = {
        "work": {"train_flops": 3e6, "values": 1, "parameters": 1},
        "precision": "fp32",
        "probes": {"product": 1e9, "convolution": 1, "memory": 1e12},
    }
    own = {"roofline": peaks, "settings": {"optimizer": {"name": "sgd"}, "precision": "fp32", "batch_size": 10}}
    for fields, fastest, limit in (({}, 3.0, "compute"), (busy(18.0), 3.0, ""), ({}, 0.01, "")):
        grid = MadeUpGrid().add({"device": "cpu"}, times(3.0), **own, **fields)
        first, _ = grid.add({"device": "b"}, times(fastest), **own).answer().configurations
        assert (first.limited_by, bool(first.mfu)) == (limit, fastest == 3.0)


def test_settings_that_differ_are_a_caution():
    grid = MadeUpGrid()
    for batch, version, precision in ((1, "2.12", "fp32"), (2, "2.13", "bf16"), (3, "2.13", "bf16")):
        conditions = {"versions": {"torch": version}, "settings": {"precision": precision}}
        grid.add({"batch_size": batch}, times(batch), **conditions)
    (caution,) = grid.answer().trust.cautions
    assert caution.could_change_best, "it is a setting"
    assert caution.text == (
        "2 configurations also differ from their references in torch 2.13 instead of 2.12; precision bf16 instead of "
        "fp32"
    )


def test_single_runs_are_doubtful():
    trust = MadeUpGrid().add({"device": "cpu"}, [2.0]).add({"device": "b"}, [1.0]).answer().trust
    assert trust.level is TrustLevel.DOUBTFUL
    assert [each.code for each in trust.cautions] == ["one_run"]
