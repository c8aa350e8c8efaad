"""`study: factored`: what the plan makes of it, and a real grid from its file to its prediction."""

import pytest

from raybench.analysis.best import best_settings, study_of
from raybench.analysis.factored import TIMED_FOR
from raybench.analysis.sentences import plain
from raybench.errors import GridFileError
from raybench.execution.inline import InlineExecutor
from raybench.plan import make_plan
from raybench.reports import of_source
from raybench.run import Options, run_grid
from raybench.spec import load_grid
from raybench.trial.job import Target
from raybench.wanted import planned_cells

GRID = """
name: g
workload: digits_cnn
epochs: 8
study: factored
stop_at_target: true
target: {metric: val/accuracy, at_least: 0.5}
axes:
  device: [fast, slow]
  batch_size: [32, 64]
  weight_decay: [0, 5e-4]
repeats: 2
devices:
  fast: {kind: cpu, threads: 1}
  slow: {kind: cpu, threads: 2}
"""


@pytest.fixture
def plan_of(tmp_path):
    def make(text, where=()):
        path = tmp_path / "grid.yaml"
        path.write_text(text)
        return make_plan(load_grid(path), InlineExecutor().nodes([]), tmp_path, where, InlineExecutor().isolation)

    return make


def roles(plan):
    return ["predicted" if cell.predicted else cell.content["settings"]["epochs"] for cell in plan.cells]


def test_trained_on_the_first_device_timed_on_the_others(plan_of):
    plan = plan_of(GRID)
    assert roles(plan) == [8, 8, 8, 8, 4, "predicted", 4, "predicted"]
    timing = plan.cells[4]
    assert timing.content[TIMED_FOR] == 8
    assert "stop_at_target" not in timing.content["settings"]
    assert "stop_at_target" in plan.cells[0].content["settings"]
    assert len(plan.trials) == 6 * 2
    assert sum("timing" in plan.label(trial) for trial in plan.trials) == 2 * 2


def test_what_is_trained_follows_from_the_whole_grid_whatever_is_selected(plan_of):
    whole = {cell.cell_id for cell in plan_of(GRID).cells if cell.profile == "slow"}
    assert {cell.cell_id for cell in plan_of(GRID, [("device", "slow")]).cells} == whole


def test_other_numerics_are_trained_too(plan_of):
    apart = GRID + "overrides:\n- when: {device: slow}\n  set: {replicas: 2}\n"
    assert roles(plan_of(apart)) == [8] * 8


def test_a_training_that_is_as_short_as_a_timing_is_not_cut(plan_of):
    assert roles(plan_of(GRID.replace("epochs: 8", "epochs: 4"))) == [4, 4, 4, 4, 4, "predicted", 4, "predicted"]


def test_what_cannot_run_here_takes_no_part(plan_of):
    skipping = plan_of(GRID.replace("fast: {kind: cpu, threads: 1}", "fast: {kind: tpu}"))
    assert [bool(cell.skip) for cell in skipping.cells] == [True] * 4 + [False] * 4
    assert roles(skipping)[4:] == [8] * 4, "somebody has to learn"


def test_a_factored_study_has_a_target(tmp_path):
    path = tmp_path / "grid.yaml"
    path.write_text(
        GRID.replace("target: {metric: val/accuracy, at_least: 0.5}\n", "").replace("stop_at_target: true\n", "")
    )
    with pytest.raises(GridFileError, match=r"study: there is no target; add one, such as"):
        load_grid(path)


def test_a_real_grid_is_predicted_where_it_did_not_run(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    # Two devices of one thread each, which differ in how they are fed: their cells learn alike.
    small = "steps_per_epoch: 8\nexamples: {train: 512, val: 64}\n"
    small += "overrides:\n- when: {device: slow}\n  set: {threads: 1, input: host}\n"
    path = tmp_path / "grid.yaml"
    path.write_text(GRID.replace("[32, 64]", "[64]").replace("at_least: 0.5", "at_least: 0.2") + small)
    outcome = run_grid(load_grid(path), InlineExecutor(), options=Options(results=tmp_path / "results"))
    assert outcome.exit_status == 0
    assert [row.status for row in outcome.rows] == [
        *["2/2 completed"] * 2,
        "2/2 completed, only timed",
        "predicted",
    ]
    assert outcome.rows[2].metric is None, "three epochs are no result"
    timed = [run for run in outcome.latest.values() if TIMED_FOR in run.cell]
    assert len(timed) == 2
    assert all(len(run.epochs) == 4 and run.target is None for run in timed)
    target = Target("val/accuracy", 0.2, None)
    found = study_of(planned_cells(outcome.plan), outcome.latest, target)
    assert all(each.seconds and each.low < each.seconds < each.high for each in found.surface.predictions)
    said = [plain(each) for each in best_settings(found, target)]
    assert said[0].startswith("On fast, decay ")
    assert said[1].startswith("On slow, decay ")
    verdict = [plain(each) for paragraph in outcome.report.verdict for each in paragraph]
    assert [words for words in verdict if words in said] == said, "the report says so"
    (section,) = [each for each in outcome.report.sections if each.name == "predictions"]
    assert [(each["device"], each["how"]) for each in section.records if each["device"] == "fast"] == [
        ("fast", "trained")
    ] * 2
    assert sorted(each["how"] for each in section.records if each["device"] == "slow") == ["predicted", "timed"]
    known = {(one.setting.device, one.setting.name): one for one in found.surface.predictions}
    for record in section.records:
        assert record["epochs"] >= 1 and record["epoch_s"] > 0
        assert record["seconds"] == known[record["device"], record["setting"]].seconds
    for device in ("fast", "slow"):
        told = [each for each in section.records if each["device"] == device]
        assert [each["seconds"] for each in told] == sorted(each["seconds"] for each in told)
        assert sum(each["fastest"] for each in told) == pytest.approx(1.0)
    again = of_source("g", tmp_path / "results")
    assert again.standing.factored and again.standing.rows[3].status == "predicted"
