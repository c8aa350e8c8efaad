import dataclasses

from made_up_grids import cell_of, contract_events, made_up, odd, told

from raybench.analysis.report import make_report
from raybench.analysis.results import attempts, latest
from raybench.analysis.sentences import plain
from raybench.analysis.standing import of_journal
from raybench.trial import events
from raybench.trial.job import Target


def test_labels_name_what_varies():
    one, two = made_up(("gpu",), (64, 128), (5e-4,)).cells
    standing = made_up(("gpu",), (64, 128), (5e-4,))
    assert standing.axes == {"batch_size": [64, 128]}
    assert [standing.label(cell) for cell in (one, two)] == ["b64", "b128"]
    wide = made_up(("cpu", "gpu"), (64, 128), (0.0, 5e-4))
    assert wide.label(wide.cells[-1]) == "gpu b128 wd5e-4"
    assert wide.label(wide.cells[-1], without=("device",)) == "b128 wd5e-4"
    alone = made_up(("gpu",))
    assert alone.label(alone.cells[0]) == "gpu b256 wd5e-4", "where nothing varies, where it is"


def test_trouble_is_told_for_what_did_not_complete():
    standing = odd()
    told = {standing.label(cell): standing.trouble(cell) for cell in standing.cells if standing.trouble(cell)}
    assert told == {
        "gpu b512 wd5e-4": "oom",
        "gpu b256 wd0": "diverged",
        "tpu b512 wd0": "skipped",
        "cpu b512 wd0": "1 not run",
    }


def test_a_journal_alone_tells_its_cells_and_its_axes():
    standing = of_journal("contract", latest(attempts(contract_events()).values()))
    assert [(cell.axes, cell.repeats) for cell in standing.cells] == [
        ({"device": name, "batch_size": 256, "weight_decay": 5e-4}, 3) for name in ("cpu", "other")
    ]
    assert (standing.workload, standing.baseline, standing.aside) == ("katnoria_cnn", {"device": "cpu"}, 0)
    ratio = standing.rows[1].speedup
    assert [round(x, 2) for x in (ratio.ratio, ratio.low, ratio.high)] == [2.02, 1.97, 2.08]


def test_any_setting_that_differs_is_an_axis_by_its_name_in_the_file():
    made = [
        *told(cell_of(precision="fp32"), 0, [1.0, 1.0], [0.5, 0.6]),
        *told(cell_of(precision="bf16"), 0, [0.5, 0.5], [0.5, 0.6]),
    ]
    made += [events.trial_skipped("0123456789ab-r0", "0123456789ab", "no TPU on any node")]
    standing = of_journal("x", latest(attempts(made).values()))
    assert list(standing.axes) == ["precision"]
    assert [standing.label(cell) for cell in standing.cells] == ["precision=fp32", "precision=bf16", "0123456789ab"]
    assert standing.rows[-1].status == "skipped: no TPU on any node"


def test_runs_of_other_cells_are_left_aside_and_counted():
    standing = made_up()
    other = latest(attempts(told(cell_of("mps"), 0, [1.0], [0.5])).values())
    more = type(standing)("x", "y", standing.cells, {**standing.latest, **other}, {})
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
    made = []
    for framework, kind, second in (("torch", "cpu", 1.0), ("tensorflow", "cpu", 2.0), ("torch_xla", "xla_cpu", 3.0)):
        for batch in (64, 128):
            cell = {**cell_of(kind, batch), "framework": framework}
            cell["device"] = {**cell["device"], "model": "a processor"}
            for repeat in range(2):
                seconds = [second * 64 / batch + repeat / 100] * 3
                name = profile(framework) if profile else None
                made += told(cell, repeat, seconds, [0.5, 0.6, 0.5 + batch / 1000], profile=name)
    return of_journal("three", latest(attempts(made).values()))


def test_frameworks_of_one_device_are_never_folded_into_one():
    standing = three_frameworks()
    assert list(standing.places.values()) == ["cpu torch"] * 2 + ["cpu tensorflow"] * 2 + ["xla_cpu torch_xla"] * 2
    report = make_report(dataclasses.replace(standing, target=Target("val/accuracy", 0.55)))
    tables = {each.name: [[text for _, text in each.cells(row)] for row in each.records] for each in report.sections}
    assert [row[:2] for row in tables["jobs"]] == [
        ["cpu torch", "b128"],
        ["cpu tensorflow", "b128"],
        ["xla_cpu torch_xla", "b128"],
    ]
    assert [row[:4] for row in tables["best"]] == [
        ["cpu torch", "b128", "0.608", "b128"],
        ["cpu tensorflow", "b128", "0.608", "b128"],
        ["xla_cpu torch_xla", "b128", "0.608", "b128"],
    ]
    assert len(tables["target"]) == 6


def test_a_name_of_the_grid_file_says_what_a_framework_says():
    standing = three_frameworks(lambda framework: f"my {framework}")
    assert list(dict.fromkeys(standing.places.values())) == ["my torch", "my tensorflow", "my torch_xla"]
    assert standing.label(standing.cells[0]) == "my torch b64", "the framework is no axis of its own"
    assert standing.baseline == {"device": "my torch"}
    report = make_report(standing)
    first = [plain(paragraph[0]) for paragraph in report.verdict]
    assert first[0].startswith("Over 2 settings my tensorflow trains katnoria_cnn ")
    assert first[1].startswith("Over 2 settings my torch_xla trains katnoria_cnn ")


def test_precisions_and_replicas_of_one_device_are_apart():
    made = []
    for precision, replicas in (("fp32", 1), ("bf16", 1), ("bf16", 8)):
        cell = cell_of("tpu", precision=precision)
        cell["device"] = {**cell["device"], "replicas": replicas}
        made += told(cell, 0, [1.0, 1.0], [0.5, 0.6], profile="tpu")
    standing = of_journal("x", latest(attempts(made).values()))
    assert list(standing.places.values()) == [
        "tpu precision=fp32 replicas=1",
        "tpu precision=bf16 replicas=1",
        "tpu precision=bf16 replicas=8",
    ]
    (jobs,) = (section for section in make_report(standing).sections if section.name == "jobs")
    assert {row["device"] for row in jobs.records} == set(standing.places.values())


def test_two_models_of_one_name_are_two_cells_with_two_names():
    made = []
    for model in ("T4", "V100"):
        cell = cell_of("cuda")
        cell["device"] = {**cell["device"], "model": model}
        made += told(cell, 0, [1.0, 1.0], [0.5, 0.6], profile="gpu")
    standing = of_journal("x", latest(attempts(made).values()))
    assert [standing.label(cell) for cell in standing.cells] == ["hardware=T4", "hardware=V100"]


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
