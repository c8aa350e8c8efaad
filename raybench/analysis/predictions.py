"""What each setting of a factored study takes to the target, trained or predicted: a table of the report."""

from __future__ import annotations

from statistics import geometric_mean

from raybench.analysis.best import study_of
from raybench.analysis.comparison import PlannedCell
from raybench.analysis.reaching import goal
from raybench.analysis.sections import Column, Record, Section, between
from raybench.analysis.sentences import digits
from raybench.analysis.standing import Standing

TRAINED, TIMED = "trained", "timed"


def predictions(standing: Standing) -> Section | None:
    """Every setting on every device, the fastest of each device first; None where the study is not factored."""
    wanted = standing.target
    study = study_of(standing.cells, standing.latest, wanted) if wanted and standing.factored else None
    if wanted is None or study is None:
        return None
    refuted = {check.setting for check in study.checks if check.refuted_by}
    records: list[Record] = []
    for found in study.surface.predictions:
        setting, cell = found.setting, study.cells[found.setting]
        hits = [run.epochs for run in study.surface.runs.get(setting.learned, ()) if run.reached]
        records.append(
            {
                "device": setting.device,
                "setting": setting.name,
                "how": _how(standing, cell) + (", refuted" if setting in refuted else ""),
                "epochs": geometric_mean(hits) if hits else None,
                "epoch_s": study.surface.epoch_seconds(setting),
                "seconds": found.seconds,
                "seconds_95": None if found.low is None else (found.low, found.high),
                "fastest": found.fastest,
                "reached": found.share,
            }
        )
    devices = list(dict.fromkeys(record["device"] for record in records))
    records.sort(key=lambda each: (devices.index(each["device"]), each["seconds"] is None, each["seconds"] or 0.0))
    return Section(
        "predictions",
        f"What each setting takes to {goal(wanted)}",
        "A factored study: how many epochs a setting takes is measured on one device and taken to be the same on "
        "others of like precision and replicas; how long an epoch takes there is timed. Seconds are epochs × seconds "
        "an epoch, with what a run pays once, loading included, and with restarts where some runs missed.",
        (
            Column("device", "device", right=False),
            Column("setting", "setting", right=False),
            Column("how", "here it was", right=False),
            Column("epochs", "epochs", digits),
            Column("epoch_s", "s/epoch", digits),
            Column("seconds", "s to the target", digits),
            Column("seconds_95", "95 %", between),
            Column("fastest", "fastest there", lambda share: f"{100 * share:.0f} %"),
            Column("reached", "runs that reach it", lambda share: f"{100 * share:.0f} %"),
        ),
        records,
    )


def _how(standing: Standing, cell: PlannedCell) -> str:
    """What was run of a cell; of one without a completed run how it ended, or that none was needed."""
    runs = standing.completed(cell)
    if not runs:
        return standing.trouble(cell)
    return TIMED if all(run.only_timed for run in runs) else TRAINED
