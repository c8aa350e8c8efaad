"""Findings of attempts with made-up evidence, on both sides of each threshold, and with their magnitude."""

import json
from copy import deepcopy
from dataclasses import asdict, replace

import pytest

from raybench.analysis.diagnostics.diagnose import by_code, diagnose_all, findings
from raybench.analysis.diagnostics.finding import Context, kinds
from raybench.core.cell import FUNCTION
from raybench.results.attempt import attempts

AUDIT = {
    "event": "trial_audited",
    "trial": "e5728b716bd9-r0",
    "attempt": 1,
    "seconds": 8.0,
    "samples": 10,
    "within": "epochs",
    "host": {
        "cores": 2,
        "own_cpu_s": 15.0,
        "other_cpu_s": 0.4,
        "steal_s": 0.0,
        "mhz": {"first": 3000.0, "last": 2950.0, "min": 2900.0, "max": 3050.0},
    },
    "process": {},
    "gpus": [],
    "clock": {"seconds": 9.7, "drift_s": 0.0004},
    "missing": [],
}


@pytest.fixture
def tell(golden_events):
    """The contract's attempt with other evidence: `audit` and `host` change the audit, the rest other events."""

    def make(
        host=None, audit=None, runtime_conditions=None, device=None, epochs=None, times=None, trial=None, machine=None
    ):
        events = deepcopy([*golden_events[:-1], AUDIT, golden_events[-1]])
        opening, *told = events
        opening["runtime_conditions"] |= runtime_conditions or {}
        opening["cell"]["device"] |= device or {}
        opening["machine"] = machine
        audited = next(event for event in events if event["event"] == "trial_audited")
        audited |= audit or {}
        audited["host"] |= host or {}
        if epochs is not None:
            first = told[0]
            made = [{**first, "epoch": number, **epoch} for number, epoch in enumerate(epochs, 1)]
            events = [opening, *made, *[event for event in told if event["event"] != "epoch_ended"]]
        for event in events:
            event["trial"] = trial or event["trial"]
        if times:
            opening["t"], events[-1]["t"] = times
        (attempt,) = attempts(events).values()
        return attempt

    return make


def codes(attempt, context=None):
    return [finding.code for finding in findings(attempt, context)]


def test_a_quiet_trial_has_none(tell):
    assert codes(tell()) == []


def test_the_contracts_own_journal_has_none(golden_events):
    (attempt,) = attempts(golden_events).values()
    assert diagnose_all([attempt]) == {attempt.key: ()}


@pytest.mark.parametrize(
    ("change", "code", "says", "too_long"),
    [
        ({"host": {"other_cpu_s": 4.0}}, "busy_host", "used 0.5 of 2 cores", 0.5 / 0.75),
        ({"host": {"steal_s": 0.96}}, "steal", "gave 6% of its cores' time", 0.06 / 0.94),
        ({"audit": {"seconds": 0.2}, "host": {"other_cpu_s": 0.3}}, "load_unknown", "0.2 s are too short", None),
        ({"host": {"mhz": {"first": 3000.0, "last": 2000.0}}}, "throttled", "2000 MHz, after 3000 at the start", 0.5),
        ({"runtime_conditions": {"threads": 1}}, "few_threads", "1 thread on 2 cores", 1.0),
        ({"machine": {"cores": 64}}, "few_threads", "2 threads on 2 of its machine's 64 cores", 31.0),
        ({"runtime_conditions": {"niceness": 5}}, "niceness", "niceness 5", None),
        ({"audit": {"clock": {"seconds": 100.0, "drift_s": -0.5}}}, "clock_drift", "0.5 s behind the monotonic", 0.005),
        ({"audit": {"clock": {"seconds": -100.0, "drift_s": 0.5}}}, "clock_drift", "ahead of the monotonic", None),
        ({"audit": {"missing": ["GPU sensors: no driver"]}}, "no_audit", "GPU sensors: no driver", None),
        ({"audit": {"gpus": [{"throttled": {"thermal": 0.5}}]}}, "throttled", "slowed down (thermal) during 50%", 0.5),
        ({"audit": {"gpus": [{"throttled": {"power_cap": 0.9}}]}}, "limited_clocks", "(power cap) during 90%", None),
        ({"runtime_conditions": {"exclusive": False}}, "cores_shared", "may have run at the same time", None),
        (
            {"audit": {"energy": {"epochs": {"count": 2, "device_j": 9.0}, "others_share": 0.4}}},
            "energy_shared",
            "its energy includes that of other programs, which used 40% of the busy processor time on its sockets",
            None,
        ),
    ],
)
def test_each_is_found_alone_and_says_what_was_seen(tell, change, code, says, too_long):
    (finding,) = findings(tell(**change))
    assert finding.code == code
    assert says in finding.says
    assert finding.remedy and finding.evidence
    assert finding.too_long == (too_long if too_long is None else pytest.approx(too_long))
    assert finding.magnitude is None or kinds()[code].distorts


@pytest.mark.parametrize(
    "change",
    [
        {"host": {"other_cpu_s": 1.5}},
        {"host": {"steal_s": 0.78}},
        {"audit": {"seconds": 0.2, "host": {"cores": 2, "own_cpu_s": 0.1}}},
        {"host": {"mhz": {"first": 3000.0, "last": 2700.0}}},
        {"host": {"mhz": {"first": 3000.0, "last": 1000.0}, "own_cpu_s": 1.0}},
        {"device": {"kind": "cuda", "count": 1}, "runtime_conditions": {"threads": 1}, "machine": {"cores": 64}},
        {"machine": {"cores": "many"}},
        {"runtime_conditions": {"threads": 4}},
        {"runtime_conditions": {"niceness": -5}},
        {"audit": {"clock": {"seconds": 1.0, "drift_s": 0.01}}},
        {"audit": {"clock": {"seconds": 1000.0, "drift_s": 0.5}}},
        {"audit": {"gpus": [{"throttled": {"thermal": 0.02, "power_cap": 0.01}}]}},
        {"audit": {"host": {}, "clock": {}, "gpus": None}},
        {"audit": {"energy": {"epochs": {"count": 2, "device_j": 9.0}, "others_share": 0.05}}},
        {"audit": {"energy": {"epochs": {"count": 2, "device_j": 0}, "others_share": 0.4}}},
        {"audit": {"energy": {"epochs": [], "others_share": "much"}}},
        {"audit": {"host": {"other_cpu_s": "much"}, "seconds": True, "gpus": [None, {"throttled": {"thermal": "x"}}]}},
    ],
)
def test_what_is_little_or_damaged_is_no_finding(tell, change):
    assert codes(tell(**change)) == []


def test_a_trial_with_short_epochs_is_judged_as_a_whole(tell):
    short = {"audit": {"seconds": 0.6, "within": "trial"}, "host": {"other_cpu_s": 0.6, "own_cpu_s": 0.5}}
    (finding,) = findings(tell(**short))
    assert finding.code == "busy_host"
    assert finding.says == "other programs used 1 of 2 cores during the trial"


def test_half_a_core_of_many_is_enough(tell):
    assert codes(tell(host={"cores": 64, "other_cpu_s": 3.9})) == []
    assert codes(tell(host={"cores": 64, "other_cpu_s": 4.1})) == ["busy_host"]


EPOCH = {"ledger": {"compile": 0.0, "train": 4.0, "input_wait": 0.01, "evaluate": 0.4}}


def waiting(share):
    return {"ledger": {"compile": 0.0, "train": 4.0 * (1 - share), "input_wait": 4.0 * share, "evaluate": 0.4}}


def test_waiting_for_input_counts_after_the_warm_up(tell):
    assert codes(tell(epochs=[waiting(0.9), waiting(0.1)])) == []
    (finding,) = findings(tell(epochs=[waiting(0.0), waiting(0.3), waiting(0.4)]))
    assert (finding.code, finding.evidence["share"]) == ("input_bound", pytest.approx(0.35))
    assert "input: device" in finding.remedy
    own = tell(epochs=[waiting(0.0), waiting(0.4)])
    own.cell = replace(own.cell, workload=replace(own.cell.workload, form=FUNCTION))
    (finding,) = findings(own)
    assert "input: device" not in finding.remedy and "DataLoader" in finding.remedy, "a setting of declared workloads"


def stepping(slower, count=16):
    """An epoch whose steps are so much slower than usual, with a little noise."""
    return {**EPOCH, "step_s": [0.01 * slower * (1 + 0.01 * (place % 3)) for place in range(count)]}


def test_steps_that_get_quicker_after_the_warm_up(tell):
    (finding,) = findings(tell(epochs=[stepping(n) for n in (1.6, 1.6, 1.6, 1.0, 1.0, 1.0)]))
    assert finding.code == "short_warmup"
    assert finding.says.startswith("after the warm-up, its steps took 1.5")
    assert finding.says.endswith("x as long as later, until epoch 3 of 6")
    assert finding.remedy == "set `warmup_epochs: 3`"
    assert finding.evidence["excess"] == pytest.approx(0.6 * 2 / 5, rel=0.02)


def test_a_slow_warm_up_is_what_a_warm_up_is_for(tell):
    assert codes(tell(epochs=[stepping(n) for n in (3.0, 1.0, 1.0, 1.0)])) == []


def test_steps_that_get_quicker_inside_the_last_epoch_need_more_epochs(tell):
    falling = {**EPOCH, "step_s": [*stepping(2.0)["step_s"], *stepping(1.0)["step_s"]]}
    (finding,) = findings(tell(epochs=[EPOCH, falling]))
    assert finding.remedy == "set `warmup_epochs: 2` and `epochs` above 2"


def test_without_steps_the_epochs_tell(tell):
    def epoch(train):
        return {"ledger": {"compile": 0.0, "train": train, "input_wait": 0.0, "evaluate": 0.4}}

    times = [9.0, 6.0, 6.02, 5.98, 4.0, 4.01, 3.99, 4.02, 4.0]
    (finding,) = findings(tell(epochs=list(map(epoch, times))))
    assert "its epochs took 1.50x" in finding.says and finding.remedy == "set `warmup_epochs: 4`"
    assert codes(tell(epochs=list(map(epoch, [9.0, 4.2, 4.02, 3.98, 4.1])))) == []


@pytest.mark.parametrize(
    ("epoch", "says"),
    [
        ({"settle_s": {"train": 0.5}}, "the device worked on for 0.5 s"),
        ({"settle_s": {"evaluate": 0.3}}, "when the clock of `evaluate` had stopped"),
        ({"device_s": {"train": 5.0}}, "`train` took 4.01 s per epoch by the host's clock and 5 s by the device's own"),
        ({"device_s": {"train": 3.9, "evaluate": 0.5}}, "`evaluate` took 0.4 s"),
    ],
)
def test_a_clock_that_did_not_wait(tell, epoch, says):
    (finding,) = findings(tell(epochs=[{**EPOCH, **epoch}] * 3))
    assert finding.code == "unsynchronised_clock" and says in finding.says


@pytest.mark.parametrize(
    "epochs",
    [
        [{"settle_s": {"train": 0.0001}, "device_s": {"train": 3.99, "evaluate": 0.39}}] * 3,
        [{"settle_s": {"train": s}} for s in (0.9, 0.0001, 0.0001)],
        [{"settle_s": {"train": s}} for s in (0.0001, 0.5, 0.0001, 0.0001)],
        [{"device_s": {"train": 4.04, "evaluate": 0.404}}] * 3,
    ],
    ids=["honest", "a first fetch that is compiled", "one that had to wait for a core", "within what clocks differ"],
)
def test_a_clock_that_did_wait(tell, epochs):
    assert codes(tell(epochs=[{**EPOCH, **epoch} for epoch in epochs])) == []


def test_what_runs_at_the_same_time_is_found_from_the_journal(tell):
    def at(trial, begin, end, **more):
        return tell(trial=trial, times=[f"2026-11-21T09:00:{second:06.3f}Z" for second in (begin, end)], **more)

    part = {"exclusive": False}
    alone = diagnose_all([at("a-r0", 0, 10, runtime_conditions=part), at("b-r0", 10.05, 20, runtime_conditions=part)])
    assert list(alone.values()) == [(), ()], "a part of the machine, and nobody on the rest of it"
    found = diagnose_all([at("a-r0", 0, 10), at("b-r0", 5, 9, runtime_conditions={"cores": [1]}), at("c-r0", 10, 20)])
    (first,), (second,), third = found.values()
    assert (first.code, second.code, third) == ("cores_shared", "cores_shared", ())
    assert first.says == "it shared its cores with 1 other run during 40% of its time"
    assert second.evidence["overlap"] == 1.0
    apart = diagnose_all([at("a-r0", 0, 10), at("b-r0", 0, 10, runtime_conditions={"cores": [7]})])
    assert all("shared its machine" in finding.says for (finding,) in apart.values())


def test_the_same_cores_were_faster_elsewhere(tell):
    def at(trial, mhz, **more):
        hours = {"a-r0": "09", "b-r0": "10", "c-r0": "11"}[trial]
        times = [f"2026-11-21T{hours}:00:0{second}.000Z" for second in (0, 9)]
        return tell(host={"mhz": {"first": mhz, "last": mhz}}, trial=trial, times=times, **more)

    found = diagnose_all([at("a-r0", 3000.0), at("b-r0", 2000.0), at("c-r0", 2000.0, device={"threads": 1})])
    assert [[finding.says for finding in told] for told in found.values()] == [
        [],
        ["its cores ended at 2000 MHz, after 3000 in another run"],
        [],
    ], "one thread is another load"


def test_possible_cautions_come_before_notes_and_the_worst_first(tell):
    noted = tell(runtime_conditions={"niceness": 3, "threads": 1})
    assert codes(noted) == ["few_threads", "niceness"]
    shares = [0.3, 0.9, 0.5]
    told = [findings(tell(host={"steal_s": 16 * share}))[0] for share in shares]
    groups = by_code([*findings(noted), *told])
    assert list(groups) == ["few_threads", "steal", "niceness"]
    assert [finding.evidence["share"] for finding in groups["steal"]] == pytest.approx([0.9, 0.5, 0.3])


def test_a_trial_that_never_ran_has_none(tell):
    (skipped,) = attempts([{"event": "trial_skipped", "trial": "a-r0", "reason": "no TPU"}]).values()
    assert diagnose_all([skipped]) == {skipped.key: ()}


def test_a_finding_is_plain_values(tell):
    (finding,) = findings(tell(host={"other_cpu_s": 4.0}))
    assert json.loads(json.dumps(asdict(finding)))["evidence"] == {"share": 0.25, "cores": 0.5}
    assert finding.degree == 0.25 and finding.name == "busy host"


def test_every_kind_says_what_to_do_and_every_possible_caution_what_was_measured():
    for kind in kinds().values():
        assert kind.remedy and kind.condition
        assert bool(kind.bias) == bool(kind.did) == bool(kind.measures) == (kind.distorts)
    assert not kinds()["different_session"].distorts, "nobody knows how much that changes"


def test_threads_that_a_grid_compares_are_no_finding(tell):
    attempt = tell(runtime_conditions={"threads": 1})
    assert codes(attempt) == ["few_threads"]
    assert codes(attempt, Context(axes=frozenset({"threads"}))) == []


def test_a_slow_start_that_other_repeats_do_not_have_is_no_short_warm_up(tell):
    slow, steady = [stepping(n) for n in (1.6, 1.6, 1.6, 1.0, 1.0, 1.0)], [stepping(1.0)] * 6

    def repeats(*epochs):
        runs = [
            tell(
                epochs=some,
                trial=f"e5728b716bd9-r{number}",
                times=[f"2026-11-21T0{number}:00:{second:02d}.000Z" for second in (0, 9)],
            )
            for number, some in enumerate(epochs)
        ]
        return [[finding.code for finding in found] for found in diagnose_all(runs).values()]

    assert repeats(slow) == [["short_warmup"]]
    assert repeats(slow, steady, steady) == [[], [], []], "a neighbour's burst"
    assert repeats(slow, slow, steady) == [["short_warmup"], ["short_warmup"], []]
