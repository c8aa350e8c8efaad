"""Attempts with a known truth, for the public functions of the analysis."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count

from raybench.analysis.analyze import Grid
from raybench.core.cell import Cell
from raybench.results.epoch import Epoch
from raybench.results.epochs import Epochs
from raybench.results.grid_request import GridRequest, PlannedCell
from raybench.results.run_table import Run

START = datetime(2026, 1, 1, tzinfo=UTC)
LEARNING = (0.5, 0.8, 0.9, 0.95)


class MadeUpGrid:
    """A grid whose runs are added one by one.

    Args:
        baseline: axes and the baseline's values.
        further: other fields of the request, such as `target`.
    """

    def __init__(self, baseline=None, **further):
        self.baseline, self.further = baseline or {}, further
        self.cells, self.attempts, self.minutes = {}, [], count()

    def add(
        self,
        axes,
        seconds,
        *,
        accuracies=LEARNING,
        examples=1000,
        repeats=None,
        price=None,
        status="completed",
        host="node-1",
        epoch_count=None,
        units=None,
        settings=None,
        device=None,
        workload="net",
        form=None,
        joules=None,
        **fields,
    ):
        """Add a configuration with one run per entry of `seconds`.

        Args:
            axes: its values on the axes; settings and the device follow from them.
            seconds: of each run, seconds of an epoch, or a list with one entry per epoch.
            accuracies: after each epoch; or a list of such tuples, one per run.
            examples: of each epoch, or a list with one entry per epoch; 0 if not counted.
            status: how the runs ended, or a list with one entry per run.
            fields: other fields of the attempts.
        """
        own = {name: value for name, value in axes.items() if name in ("batch_size", "weight_decay", "precision")}
        tree = {
            "workload": {"name": workload, **({"form": form} if form else {})},
            "data": {"name": "data", "examples": {"val": 10_000}},
            "device": {"kind": axes.get("device", "cpu"), **(device or {})},
            "framework": "torch",
            "settings": {"epochs": epoch_count or len(LEARNING), **own, **(settings or {})},
            "params": {name.removeprefix("params."): value for name, value in axes.items() if "params." in name},
            "warmup_epochs": 1,
        }
        cell = Cell.from_json({name: value for name, value in tree.items() if value})
        cell_id = f"cell{len(self.cells)}"
        requested = repeats or len(seconds)
        self.cells[cell_id] = PlannedCell(cell_id, axes, requested, None, price, cell)
        for repeat, of_run in enumerate(seconds):
            reached = accuracies[repeat] if isinstance(accuracies[0], (tuple, list)) else accuracies
            of_epochs = of_run if isinstance(of_run, (tuple, list)) else [of_run] * len(reached)
            sizes = examples if isinstance(examples, (tuple, list)) else [examples] * len(reached)
            start = START + timedelta(minutes=100 * repeat + next(self.minutes) % 100)
            done = [
                Epoch(
                    number,
                    None,
                    steps=10,
                    examples=size,
                    ledger={"train": float(each)},
                    metrics={"val/accuracy": value, "train/loss": 1 / number + repeat / 1000 + len(self.cells) / 1e5},
                    units=units or {},
                )
                for number, (each, value, size) in enumerate(zip(of_epochs, reached, sizes, strict=False), 1)
            ]
            audit = None if joules is None else {"energy": {"steady": {"device_j": joules[repeat], "count": 1}}}
            self.attempts.append(
                Run(
                    **{
                        "trial": f"{cell_id}-r{repeat}",
                        "attempt": 1,
                        "cell": cell,
                        "seed": repeat,
                        "profile": axes.get("device"),
                        "host": {"name": host},
                        "started": start.isoformat(),
                        "ended": (start + timedelta(seconds=30)).isoformat(),
                        "status": status if isinstance(status, str) else status[repeat],
                        "wall": 20.0,
                        "epochs": Epochs(done),
                        "audit": audit,
                        **fields,
                    }
                )
            )
        return self

    def request(self) -> GridRequest:
        """Return what was requested."""
        return GridRequest("made_up", list(self.cells.values()), self.baseline, "net", **self.further)

    def answer(self, baseline=None, **further):
        """Return the answer from these runs."""
        return Grid(self.attempts, self.request(), baseline).answer(**further)


def change_epochs(run, **fields):
    """Change fields of all epochs of a run."""
    run.epochs = Epochs(replace(epoch, **fields) for epoch in run.epochs)


def by_label(answer):
    """Return the configurations of an answer by their labels."""
    return {each.label: each for each in answer.configurations}


def effect_of(answer, axis, value):
    """Return the row of the table of effects for a value of an axis."""
    return next(each for each in answer.effects if (each.axis, each.value) == (axis, value))
