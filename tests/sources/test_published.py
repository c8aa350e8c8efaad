"""Published results: what each source states comes out of its own numbers."""

from math import exp, log
from pathlib import Path
from statistics import fmean, median

import pytest

import raybench
from raybench.analysis.statistics.speedup import speedup
from raybench.analysis.statistics.time_to_target import NEVER, TargetAttempt, expected
from raybench.errors import UsageError
from raybench.results.timing import PUBLISHED
from raybench.sources.published_results import parse

ALL = raybench.published()


def times(results, column):
    """One number a process, by machine."""
    return {device: list(frame[column]) for device, frame in results.trials.groupby("device")}


@pytest.mark.parametrize("name", ALL)
def test_each_says_what_it_is_and_loads_as_tables(name):
    told = ALL[name]
    assert told.caveats, "what to keep in mind is half of a published number"
    found = raybench.load(f"published:{name}")
    assert len(found.trials) == len(told.runs) and set(found.trials["grid"]) == {name}
    assert found.trials["trial"].is_unique
    assert found.trials["device_model"].notna().all() and found.trials["label"].notna().all()
    reports = ["reported_s", "examples_per_s", "last_val_accuracy", "best_val_accuracy"]
    assert (found.trials[reports].notna().any(axis=1) | (found.trials["status"] == "oom")).all(), "nothing reported"
    assert found.trials["reported_rule"].isna().all() == (told.rule is None)
    assert set(found.trials["reported_rule"].dropna()) <= set(PUBLISHED)


@pytest.mark.parametrize(
    ("machine", "ratio", "low", "high"),
    [("mac_mini", "159.42", "158.0", "160.8"), ("i5_7500", "52.25", "52.00", "52.50")],
)
def test_resnet63_under_its_own_rule(machine, ratio, low, high):
    side = times(raybench.load("published:resnet63"), "reported_s")
    found = speedup(side[machine], side["gtx_1080"])
    assert f"{found.ratio:.2f}" == ratio
    digits = len(low.partition(".")[2])
    assert (f"{found.low:.{digits}f}", f"{found.high:.{digits}f}") == (low, high)


@pytest.mark.parametrize(
    ("column", "mac", "i5"),
    [("epochs_s", "8.83", "3.22"), ("first_s", "3.57", "1.50"), ("mean_steady_s", "159.42", "52.25")],
)
def test_resnet63_by_other_rules(column, mac, i5):
    side = times(raybench.load("published:resnet63"), column)
    ratios = [speedup(side[machine], side["gtx_1080"]).ratio for machine in ("mac_mini", "i5_7500")]
    assert [f"{ratio:.2f}" for ratio in ratios] == [mac, i5]


def test_resnet63_by_medians_of_all_its_steady_calls():
    found = raybench.load("published:resnet63")
    device = found.epochs["trial"].map(found.trials.set_index("trial")["device"])
    middle = found.epochs[found.epochs["steady"]].groupby(device)["epoch_s"].apply(median)
    assert f"{middle['mac_mini'] / middle['gtx_1080']:.2f}" == "160.02"
    assert f"{middle['i5_7500'] / middle['gtx_1080']:.2f}" == "52.27"


def test_resnet63_by_processor_time_which_is_no_headline():
    found = raybench.load("published:resnet63")
    side = times(found, "steady_cpu_s")
    assert f"{speedup(side['mac_mini'], side['gtx_1080']).ratio:.0f}" == "421"
    clock = PUBLISHED["resnet63_cpu"].rule
    by_rule = [clock(record.attempt) for record in ALL["resnet63"].records("resnet63")]
    assert by_rule == pytest.approx(found.trials["steady_cpu_s"].tolist())
    described = found.columns.set_index("name")["meaning"]
    assert "cross-check" in described["steady_cpu_s"]
    assert any("no headline" in caveat and "421" in caveat for caveat in ALL["resnet63"].caveats)


def test_dawnbench_with_its_costs():
    found = raybench.load("published:dawnbench_resnet164").trials.set_index("device")
    seconds = found["time_to_target_s"]
    assert f"{seconds['vcpu_16'] / seconds['k80']:.2f}" == "8.25"
    assert f"{seconds['vcpu_16'] / seconds['p100']:.1f}" == "31.4"
    assert (found["total_price"]["vcpu_16"], found["total_price"]["k80"]) == (42.35, 9.31)
    assert f"{found['total_price']['vcpu_16'] / found['total_price']['k80']:.2f}" == "4.55"
    assert found["dawnbench_s"].equals(found["reported_s"])


def test_davidnet_reaches_its_target_in_35_of_50_runs():
    row = raybench.load("published:davidnet").trials.iloc[0]
    assert (row["target_runs"], row["runs"], row["last_val_accuracy"]) == (35, 50, 0.9408)
    hits, runs, seconds = row["target_runs"], row["runs"], row["time_to_target_s"]
    found = expected([TargetAttempt(seconds)] * hits + [TargetAttempt(seconds, NEVER)] * (runs - hits))
    assert (seconds, f"{found.seconds:.1f}") == (79, "112.9")


def test_what_sources_state_as_ratios_follows_from_what_they_report():
    tutorial = raybench.load("published:davidnet_tpu").trials
    rate, took = (tutorial.dropna(subset=name).set_index("device")[name] for name in ("examples_per_s", "reported_s"))
    assert (f"{rate['tpu'] / rate['t4']:.1f}", f"{took['t4'] / took['tpu']:.1f}") == ("19.3", "9.2")
    unet = raybench.load("published:resunet_v1").trials
    card = unet[(unet["device"] == "p100") & (unet["batch_size"] == 128)]["examples_per_s"].dropna().item()
    cloud = unet[unet["device"] == "tpu"]["examples_per_s"].dropna().item()
    assert f"{cloud / card:.2f}" == "1.96"
    assert unet.loc[unet["batch_size"] == 256, "status"].tolist().count("oom") == 1
    stated = {(name, claim.ratio): claim.claimed for name, publication in ALL.items() for claim in publication.claims}
    assert stated == {
        ("davidnet_tpu", 5): "around 5x slower",
        ("davidnet_tpu", 19.3): None,
        ("davidnet_tpu", 9.2): None,
        ("davidnet_tpu", 7.6): None,
        ("imdb_lstm", 57): "57 × the free cloud CPU",
        ("mnist_cnn", 4.1): None,
        ("mnist_cnn", 0.85): None,
        ("resnet63", 159): "159 ×",
        ("resnet63", 159.42): None,
        ("resnet63", 52.25): None,
        ("resunet_v1", 3): "3X",
        ("resunet_v1", 1.96): None,
    }, "the source's own words; without them the ratio was derived"


def test_a_ratio_is_claimed_by_its_source_or_derived_from_its_data():
    claim = "\nclaims:\n  - {machine: box, over: box, ratio: 2, what: all, measure: null"
    for rest in ("}", ", claimed: twice, derived: 4 s ÷ 2 s}"):
        with pytest.raises(UsageError, match="wanted one of claimed"):
            parse(OWN + claim + rest, "mine.yaml")
    (claimed,) = parse(OWN + claim + ", claimed: twice}", "mine.yaml").claims
    (derived,) = parse(OWN + claim + ", derived: 4 s ÷ 2 s}", "mine.yaml").claims
    assert (claimed.origin, derived.origin) == ("claimed", "derived: 4 s ÷ 2 s")


def test_the_rest_as_it_was_published():
    def seconds(name):
        return raybench.load(f"published:{name}").trials.set_index("device")["reported_s"].to_dict()

    assert seconds("katnoria_cnn") == {"gtx_1080_ti": 32, "k80": 86, "tpu": 136}
    bilstm = raybench.load("published:imdb_bilstm").trials
    assert bilstm[["device", "reported_s"]].values.tolist() == [
        *(["k80", 308], ["vcpu_16", 129]),
        *(["k80", 302], ["vcpu_16", 129], ["vcpu_16", 140]),
    ]
    assert bilstm["reported_rule"].notna().tolist() == [True, True, False, False, False]
    assert seconds("imdb_lstm") == {"gpu": 119}
    assert seconds("imdb_cnn") == {"i5": 90, "k40": 10}
    assert seconds("resunet_v2") == {"p100": 1151}
    assert raybench.load("published:airbench94").trials["airbench_s"].tolist() == [3.83, 3.09, 2.59, 2.015]
    assert raybench.load("published:davidnet").trials["reported_s"].tolist() == [79, 74, 297, 26]
    assert raybench.load("published:resunet_v1").trials["reported_s"].tolist()[:2] == [2331, 740]
    mnist = raybench.load("published:mnist_cnn").trials
    assert mnist["best_val_accuracy"].dropna().tolist() == [0.9942, 0.9941]
    assert mnist["last_val_accuracy"].dropna().tolist() == [0.992, 0.994]


def test_calls_are_epochs_of_one_step():
    found = raybench.load("published:resnet63")
    calls = found.epochs[found.epochs["trial"] == found.trials["trial"][3]]
    assert calls["epoch_s"].tolist() == [15.327186, 0.204940, 0.178514, 0.177793]
    assert calls["cpu_s"].tolist() == [15.410076, 0.215100, 0.178330, 0.182779]
    assert calls["steady"].tolist() == [False, False, True, True]
    assert calls["steps"].tolist() == [1] * 4 and calls["examples"].tolist() == [64] * 4
    assert found.trials["repeat"].tolist() == [0, 1, 2] * 3 and found.trials["cell"].nunique() == 3
    gpu = [fmean(pair) for pair in ((0.178514, 0.177793), (0.177940, 0.177911), (0.178042, 0.178016))]
    assert exp(fmean(map(log, gpu))) == pytest.approx(0.1780, abs=1e-4)


def test_a_name_that_is_not_there():
    with pytest.raises(UsageError, match="published:resnet36: no such published result; did you mean resnet63"):
        raybench.load("published:resnet36")
    with pytest.raises(UsageError, match="no such published result"):
        raybench.load("published:../literature/resnet63")


OWN = """source: mine
workload: a net
protocol: once
counts: everything
rule: total
machines:
  box: {device_kind: cpu, device_model: box}
runs:
  - machine: box
    says: {reported_s: 3}
"""


def test_a_file_of_ones_own(tmp_path):
    (tmp_path / "mine.yaml").write_text(OWN)
    row = raybench.load(tmp_path / "mine.yaml").trials.iloc[0]
    assert (row["grid"], row["total_s"], row["reported_rule"]) == ("mine", 3.0, "total")


@pytest.mark.parametrize(
    ("change", "line", "says"),
    [
        (("device_kind", "device_knd"), 7, "device_knd is no column that can stand here; did you mean device_kind"),
        (("reported_s: 3", "reported_s: soon"), 10, "'soon' is no float64"),
        (("reported_s: 3", "batch_size: 3"), 10, "batch_size is no column"),
        (("machine: box", "machine: bx"), 1, "bx is not among the machines; did you mean box"),
        (("rule: total", "rule: totl"), 1, "totl is no rule; did you mean total"),
        (("counts", "count"), 1, "counts: Field required"),
        (("source: mine", "source: mine\nsource: yours"), 2, "appears twice"),
        ((OWN, "- a\n"), 1, "valid dictionary"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_line(change, line, says):
    with pytest.raises(UsageError) as caught:
        parse(OWN.replace(*change), "mine.yaml")
    assert str(caught.value).startswith(f"mine.yaml:{line}:") and says in str(caught.value)


def test_they_are_in_the_package():
    folder = Path(raybench.__file__).parent / "sources" / "literature"
    assert {path.stem for path in folder.glob("*.yaml")} == set(ALL)
