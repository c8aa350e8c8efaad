from support.made_up_grids import cell_of, contract_events, made_up, odd, told, told_in_three_frameworks

from raybench.analysis.grid_results import of_journal
from raybench.analysis.run_counts import Ending, RunCounts
from raybench.core import events
from raybench.reporting.report import make_report
from raybench.reporting.sentences import plain
from raybench.results.attempt import attempts, latest


def test_labels_name_what_varies():
    one, two = made_up(("gpu",), (64, 128), (5e-4,)).cells
    results = made_up(("gpu",), (64, 128), (5e-4,))
    assert results.axes == {"batch_size": [64, 128]}
    assert [results.label(cell) for cell in (one, two)] == ["b64", "b128"]
    wide = made_up(("cpu", "gpu"), (64, 128), (0.0, 5e-4))
    assert wide.label(wide.cells[-1]) == "gpu b128 wd5e-4"
    assert wide.label(wide.cells[-1], without=("device",)) == "b128 wd5e-4"
    alone = made_up(("gpu",))
    assert alone.label(alone.cells[0]) == "gpu b256 wd5e-4", "without a varying axis: device and settings"


def test_run_counts_of_what_did_not_complete():
    results = odd()
    counts = {results.label(cell): results.counts(cell) for cell in results.cells}
    assert {label: each for label, each in counts.items() if each != RunCounts(3, 3)} == {
        "gpu b512 wd5e-4": RunCounts(3, endings=(Ending("oom", 3, "train"),)),
        "gpu b256 wd0": RunCounts(3, endings=(Ending("diverged", 3),)),
        "tpu b512 wd0": RunCounts(3, skip="no node has a tpu"),
        "cpu b512 wd0": RunCounts(3, 2, endings=(Ending("not run", 1),)),
    }


def test_a_journal_alone_tells_its_cells_and_its_axes():
    results = of_journal("contract", latest(attempts(contract_events()).values()))
    assert [(cell.axes, cell.repeats) for cell in results.cells] == [
        ({"device": name, "batch_size": 256, "weight_decay": 5e-4}, 3) for name in ("cpu", "other")
    ]
    assert (results.workload, results.baseline, results.aside) == ("katnoria_cnn", {"device": "cpu"}, 0)
    ratio = results.rows[1].speedup
    assert [round(x, 2) for x in (ratio.ratio, ratio.low, ratio.high)] == [2.02, 1.97, 2.08]


def test_any_setting_that_differs_is_an_axis_by_its_name_in_the_file():
    made = [
        *told(cell_of(precision="fp32"), 0, [1.0, 1.0], [0.5, 0.6]),
        *told(cell_of(precision="bf16"), 0, [0.5, 0.5], [0.5, 0.6]),
    ]
    made += [events.trial_skipped("0123456789ab-r0", "0123456789ab", "no TPU on any node")]
    results = of_journal("x", latest(attempts(made).values()))
    assert list(results.axes) == ["precision"]
    assert [results.label(cell) for cell in results.cells] == ["precision=fp32", "precision=bf16", "0123456789ab"]
    assert results.rows[-1].counts == RunCounts(1, skip="no TPU on any node")


def test_runs_of_other_cells_are_left_aside_and_counted():
    results = made_up()
    other = latest(attempts(told(cell_of("mps"), 0, [1.0], [0.5])).values())
    more = type(results)("x", "y", results.cells, {**results.latest, **other}, {})
    assert (more.aside, len(more.rows)) == (1, 2)


def test_the_metric_is_accuracy_or_what_there_is():
    assert made_up().metric == "val/accuracy"
    made = told(cell_of(), 0, [1.0], [0.5])
    for event in made:
        if "metrics" in event:
            event["metrics"] = {"train/loss": 1.0, "val/dice": 0.5}
    assert of_journal("x", latest(attempts(made).values())).metric == "val/dice"


def three_frameworks(profile=None):
    """One processor in three frameworks: device names as a grid file has them, or none."""
    made = told_in_three_frameworks(profile)
    return of_journal("three", latest(attempts(made).values()))


def test_a_name_of_the_grid_file_says_what_a_framework_says():
    results = three_frameworks(lambda framework: f"my {framework}")
    assert list(dict.fromkeys(results.places.values())) == ["my torch", "my tensorflow", "my torch_xla"]
    assert results.label(results.cells[0]) == "my torch b64", "the framework is no axis of its own"
    assert results.baseline == {"device": "my torch"}
    report = make_report(results)
    first = [plain(paragraph[0]) for paragraph in report.verdict]
    assert first[0].startswith("my torch is fastest: 1.98x faster than my tensorflow at equal settings (")
    assert [each.device for each in report.ranking] == ["my torch", "my tensorflow", "my torch_xla"]


def test_precisions_and_replicas_of_one_device_are_apart():
    made = []
    for precision, replicas in (("fp32", 1), ("bf16", 1), ("bf16", 8)):
        cell = cell_of("tpu", precision=precision)
        cell["device"] = {**cell["device"], "replicas": replicas}
        made += told(cell, 0, [1.0, 1.0], [0.5, 0.6], profile="tpu")
    results = of_journal("x", latest(attempts(made).values()))
    assert list(results.places.values()) == [
        "tpu precision=fp32 replicas=1",
        "tpu precision=bf16 replicas=1",
        "tpu precision=bf16 replicas=8",
    ]
    (jobs,) = (section for section in make_report(results).sections if section.name == "jobs")
    assert {row["device"] for row in jobs.records} == set(results.places.values())


def test_two_models_of_one_name_are_two_cells_with_two_names():
    made = []
    for model in ("T4", "V100"):
        cell = cell_of("cuda")
        cell["device"] = {**cell["device"], "model": model}
        made += told(cell, 0, [1.0, 1.0], [0.5, 0.6], profile="gpu")
    results = of_journal("x", latest(attempts(made).values()))
    assert [results.label(cell) for cell in results.cells] == ["hardware=T4", "hardware=V100"]


def test_the_version_of_a_framework_is_an_axis_only_where_there_are_two_of_one():
    def of(*ran):
        made = []
        for framework, version in ran:
            cell = {**cell_of(), "framework": framework}
            cell["engine"] = {**cell["engine"], "framework_version": version}
            made += told(cell, 0, [1.0, 1.0], [0.5, 0.6])
        return list(of_journal("x", latest(attempts(made).values())).axes)

    assert of(("torch", "2.13"), ("tensorflow", "2.21")) == ["framework"]
    assert of(("torch", "2.9"), ("torch", "2.13")) == ["framework_version"]
    assert of(("torch", "2.9"), ("torch", "2.13"), ("tensorflow", "2.21")) == ["framework", "framework_version"]
