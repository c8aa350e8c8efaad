from made_up_grids import cell_of, contract_events, made_up, odd, told

from raybench.analysis.results import attempts, latest
from raybench.analysis.standing import of_journal
from raybench.trial import events


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
