"""Made-up grids that together show every kind of sentence, table and remark of a report.

No number is drawn at random with numpy, whose streams may change with its version.
"""

from __future__ import annotations

from dataclasses import replace

from raybench.analysis.comparison import PlannedCell
from raybench.analysis.diagnostics.finding import Finding
from raybench.analysis.grid_results import GridResults, of_journal
from raybench.core import events
from raybench.core.cell import Cell
from raybench.core.identity import cell_id
from raybench.core.job import Target
from raybench.reporting.report import Report, ReportContext, make_report
from raybench.results.attempt import attempts, latest
from support.made_up_grids import cell_of, contract_events, made_up, odd, told, told_in_three_frameworks

LEARNING = (0.4, 0.6, 0.7, 0.8)
"""Training accuracy of four epochs; validation accuracy is 2 points less."""

CPU, GPU = (4.0, 4.1, 4.05), (1.0, 1.01, 0.99)
"""Seconds of an epoch of three runs."""


class Grid:
    """Collects cells and their trials, device by device."""

    def __init__(self, **results) -> None:
        self.cells, self.events, self.findings = [], [], {}
        self.results = {"baseline": {"device": "cpu"}} | results

    def add(
        self,
        device,
        seconds=(),
        batch=256,
        price=None,
        axes=None,
        plan=None,
        change=None,
        finding=None,
        joules=(),
        **how,
    ):
        """Add a cell with a run for each of `seconds`.

        Args:
            price: of the device, per hour.
            joules: of the device in an epoch of each run; None for a run that was not measured.
            axes: further axes of the cell.
            plan: fields of the planned cell.
            change: from the cell's content to another one, in place.
            finding: a finding about every run.
            how: `accuracies` and `learning` of the runs, their `statuses`, `start`, `epochs`, `event` (a function that
                changes each event) and settings of the cell.
        """
        # No two cells are alike: of a difference that is nothing but rounding, another processor may say another thing.
        luck = 0.0007 * (len(self.cells) * 7 % 5 - 2)
        accuracies = [luck + each for each in how.pop("accuracies", (0.0, 0.002, 0.004))]
        learning, statuses = how.pop("learning", LEARNING), how.pop("statuses", {})
        start, event, reached = how.pop("start", 2.0), how.pop("event", None), how.pop("reached", {})
        content = cell_of(device, batch, epochs=how.pop("epochs", len(learning)), **how)
        if change:
            change(content)
        name = cell_id(content)
        axes = {"device": device, "batch_size": batch} | (axes or {})
        planned = {"repeats": 3} | (plan or {})
        self.cells.append(PlannedCell(name, axes, price_per_hour=price, content=Cell.from_json(content), **planned))
        for repeat, second in enumerate(seconds):
            status = statuses.get(repeat, "completed")
            curve = [value + accuracies[repeat % len(accuracies)] for value in reached.get(repeat, learning)]
            curve = curve if status == "completed" else curve[:1]
            trial = told(content, repeat, [second] * len(curve), curve, status, None, device, start)
            for each in trial:
                if event:
                    event(each)
            self.events += trial
            if repeat < len(joules) and joules[repeat] is not None:
                self.events.append(
                    audited(trial[0]["trial"], joules[repeat], len(curve), self.results.get("target"), curve)
                )
            if finding:
                self.findings[(f"{name}-r{repeat}", 1)] = (finding,)
        return self

    def report(self, known: ReportContext | None = None) -> Report:
        found = latest(attempts(self.events).values())
        results = GridResults("made up", "katnoria_cnn", self.cells, found, **self.results)
        return make_report(replace(results, findings=self.findings), known)


def audited(trial, joules, epochs, target=None, curve=(), **energy):
    """The audit of a trial whose epochs all took the same energy, and its host a tenth of it."""

    def stretch(count):
        return {"count": count, "seconds": 10.0 * count, "device_j": joules * count, "host_j": joules * count / 10}

    parts = {"epochs": stretch(epochs), "each": {str(number + 1): stretch(1) for number in range(epochs)}}
    if epochs > 1:
        parts["steady"] = stretch(epochs - 1)
    reached = [number for number, value in enumerate(curve, 1) if target and value - 0.02 >= target.at_least]
    if reached:
        parts["target"] = stretch(reached[0])
    return events.trial_audited(trial, 1, energy=parts | {"missing": []} | energy)


def aimed(results: GridResults, at_least: float, metric: str = "val/accuracy") -> GridResults:
    return replace(results, target=Target(metric, at_least))


def much_went_wrong() -> Report:
    """One cell out of memory, one diverged, one skipped, one repeat missing, and a target that some reach."""
    known = ReportContext("Much went wrong.", "name: made_up\n", ["a proof has failed"], ["It is a part of the grid."])
    return make_report(aimed(odd(), 0.78), known)


def contract(repeats: int = 3) -> Report:
    """The contract's two devices."""
    made = [event for event in contract_events() if int(event["trial"][-1]) < repeats]
    return make_report(of_journal("contract", latest(attempts(made).values())))


def _tenth_of_the_examples(event):
    if event["event"] == "epoch_ended":
        event |= {"steps": 10, "examples": 2560}


def outcomes() -> Report:
    """Each device another outcome of the comparison with `cpu`: speed, accuracy, price, job length, remarks."""
    grid = Grid().add("cpu", CPU)
    grid.add("faster", (2.0, 2.02, 1.98))
    grid.add("slower", (8.0, 8.2, 8.1))
    grid.add("as fast", (4.05, 4.1, 4.02))
    grid.add("not clear", (4.2, 5.1, 4.4))
    grid.add("absurd", (7.0, 0.14), plan={"repeats": 2})
    grid.add("one run", (2.0,), plan={"repeats": 1})
    grid.add("one of three", (2.0, 2.1, 2.0), statuses={1: "oom", 2: "failed"})
    grid.add("lost", (2.0, 2.1, 2.0), statuses={0: "lost", 1: "killed", 2: "timeout"})
    grid.add("all lost", (2.0, 2.1, 2.0), statuses=dict.fromkeys(range(3), "lost"))
    grid.add("not run")
    grid.add("skipped", plan={"skip": "no TPU on any node"})
    grid.add("slow start", GPU, start=300.0)
    grid.add("quick start", (8.0, 8.1, 8.05), start=0.2)
    grid.add("learns worse", (2.0, 2.02, 1.98), accuracies=(-0.03, -0.031, -0.029))
    grid.add("learns less surely", (2.0, 2.02, 1.98), accuracies=(-0.03, 0.05, 0.01))
    grid.add("bf16", (2.0, 2.02, 1.98), precision="bf16", channels_last=True)
    grid.add("fewer examples", GPU, event=_tenth_of_the_examples)
    grid.add("one epoch", (2.0, 2.02, 1.98), learning=LEARNING[:1])
    grid.add("longer", (2.0, 2.02, 1.98), learning=(*LEARNING, 0.81))
    grid.add("stopped early", (2.0, 2.02, 1.98), learning=LEARNING[:3], epochs=4)
    for code, too_long, too_short in (
        ("throttled", 0.5, None),
        ("unsynchronised_clock", None, 2.0),
        ("throttled", 0.1, None),
        ("niceness", None, None),
    ):
        found = Finding(code, "it was seen", "mend it", {"share": 0.5}, too_long, too_short)
        grid.add(code, (2.0, 2.02, 1.98), finding=found)
    grid.add("exact", (2.0, 2.0, 2.0))
    return grid.report()


def prices() -> Report:
    """Each device another price."""
    grid = Grid().add("cpu", CPU, price=0.1)
    grid.add("dearer", (2.0, 2.02, 1.98), price=0.35)
    grid.add("at half the speed and price", (8.0, 8.2, 8.1), price=0.05)
    grid.add("not clear", (4.2, 5.1, 4.4), price=0.1)
    grid.add("free", (2.0, 2.02, 1.98), price=0.0)
    grid.add("without a price", (2.0, 2.02, 1.98))
    grid.add("one run", (2.0,), plan={"repeats": 1}, price=0.2)
    return grid.report()


def moving_machine() -> Report:
    """Four devices whose runs slow down together from repeat to repeat: they are compared repeat by repeat."""
    grid = Grid()
    for device, seconds in (("cpu", 4.0), ("other", 2.0), ("third", 3.0), ("fourth", 1.0)):
        grid.add(device, [seconds * factor for factor in (1.0, 1.5 + seconds / 100, 0.9 + seconds / 200)])
    return grid.report()


def free_baseline() -> Report:
    """The baseline costs nothing."""
    return Grid().add("cpu", CPU, price=0.0).add("gpu", GPU, price=0.35).report()


def same_cell_twice() -> Report:
    """Each cell once more, as an A/A check: one that agrees, one that does not, one with one run, one not run."""
    grid = Grid()
    runs = {"cpu": (CPU, (4.06, 4.11, 4.0)), "gpu": ((2.0, 2.02, 1.98), (3.0, 3.02, 2.98)), "tpu": ((1.0,), (1.05,))}
    runs["mps"] = (GPU, ())
    for device, (first, again) in runs.items():
        grid.add(device, first, plan={"repeats": len(first)})
        origin = grid.cells[-1]
        grid.add(device, again, plan={"repeats": len(first), "aa_of": origin.cell_id}, aa=1)
    return grid.report()


def batches() -> Report:
    """Two batch sizes on one device, with a batch size as the baseline; the larger takes more epochs to the target."""
    grid = Grid(baseline={"batch_size": 64}, target=Target("val/accuracy", 0.77))
    busy = Finding("busy_host", "it was seen", "mend it", {"share": 0.5}, too_long=1.0)
    grid.add("cpu", (6.0, 6.1, 6.05), batch=64, price=0.1, finding=busy)
    return grid.add("cpu", CPU, batch=256, price=0.1, learning=(*LEARNING[:2], *LEARNING[1:]), epochs=4).report()


def too_few_runs() -> Report:
    """A difference that would take more runs to tell."""
    return Grid().add("cpu", (4.0, 5.0, 4.5)).add("other", (4.2, 5.1, 4.4)).report()


def far_apart() -> Report:
    """Two runs each, far apart, over many settings."""
    return make_report(made_up(("cpu", "gpu"), (32, 64, 128, 256, 512), noise=0.8, repeats=2, seed=3))


def many_settings() -> Report:
    """Two devices over four batch sizes: faster at some, slower at others; the target in reach of some runs."""
    speeds = [(64, 4.0, 6.0), (128, 3.0, 3.0), (256, 2.5, 1.0), (512, 2.4, 0.5)]
    grid = Grid(target=Target("val/accuracy", 0.7815))
    for batch, *both in speeds:
        for device, second in zip(("cpu", "gpu"), both, strict=True):
            wavering = (1.0, 1.01, 1.02) if device == "cpu" else (1.013, 1.0, 1.009)
            grid.add(device, [second * each for each in wavering], batch=batch)
    grid.add("gpu", (1.0, 1.01, 1.02), axes={"decay_rule": "sum_over_replicas"}, decay_rule="sum_over_replicas")
    return grid.report()


def warmup_only() -> Report:
    """No epoch after the warm-up."""
    return make_report(made_up(("cpu", "gpu"), (64, 128, 256, 512), epochs=1))


def one_device() -> Report:
    """Nothing to compare with: the fastest and the slowest cell."""
    return make_report(replace(made_up(("gpu",), (64, 128, 256, 512)), target=Target("val/loss", None, 1.45)))


def nothing_completed() -> Report:
    return make_report(made_up(ends={(device, 256, 5e-4, n): "oom" for device in ("cpu", "gpu") for n in range(3)}))


def nothing_at_all() -> Report:
    return make_report(GridResults("nothing", "katnoria_cnn", [], {}, {}))


def stand_in_baseline() -> Report:
    """The baseline failed, and the journal has runs that nobody asks for any more."""
    results = made_up(("cpu", "gpu", "tpu"), ends={("cpu", 256, 5e-4, repeat): "failed" for repeat in range(3)})
    fewer = [*results.cells[:2], replace(results.cells[2], repeats=2)]
    other = latest(attempts(told(cell_of("mps"), 0, [1.0], [0.5])).values())
    return make_report(aimed(replace(results, cells=fewer, latest={**results.latest, **other}), 0.78))


def targets() -> Report:
    """Each device another outcome of the way to the target, which the baseline reaches in each run."""
    never = (0.1, 0.2, 0.3, 0.4)
    late = (0.4, 0.5, 0.6, 0.7, 0.8, 0.8)
    grid = Grid(target=Target("val/accuracy", 0.77)).add("cpu", CPU)
    grid.add("sooner", (2.0, 2.02, 1.98))
    grid.add("later", (8.0, 8.1, 8.05))
    grid.add("more epochs", (2.0, 2.02, 1.98), learning=late)
    grid.add("more epochs in bf16", (2.0, 2.02, 1.98), learning=late, precision="bf16")
    grid.add("later in bf16", (9.0, 9.1, 9.05), learning=late, precision="bf16")
    grid.add("other epochs", (2.0, 2.02, 1.98), reached={1: (0.5, 0.7, 0.8, 0.8)})
    grid.add("one run", (2.0,), plan={"repeats": 1})
    grid.add("some", (2.0, 2.02, 1.98), reached={1: never})
    grid.add("one of three", (2.0, 2.02, 1.98), reached={1: never, 2: never})
    grid.add("none", (2.0, 2.02, 1.98), learning=never)
    grid.add("none, far apart", (0.5, 9.0), learning=never, plan={"repeats": 2})
    grid.add("out of memory", (2.0, 2.0, 2.0), statuses=dict.fromkeys(range(3), "oom"))
    grid.add("lost", (2.0, 2.0, 2.0), statuses=dict.fromkeys(range(3), "lost"))
    grid.add("not clear", (3.0, 6.0, 4.4))
    grid.add("long start", (2.0, 2.02, 1.98), start=300.0)
    stop = {"metric": "val/accuracy", "at_least": 0.77}
    grid.add("stops at the target", (2.0, 2.02, 1.98), stop_at_target=stop)
    grid.add("just above", (2.0, 2.02, 1.98), accuracies=(-0.008, -0.0085, -0.009))
    return grid.report()


def training_accuracy_as_target() -> Report:
    return make_report(aimed(made_up(), 0.8, "train/accuracy"))


def error_as_metric() -> Report:
    """Of an error the lowest is the best."""

    def as_error(batch):
        def change(event):
            if event["event"] == "epoch_ended":
                wrong = 1 - event["metrics"]["val/accuracy"] + batch / 10_000
                event["metrics"] = {"val/rmse": wrong, "val/depth": wrong}

        return change

    grid = Grid(target=Target("val/depth", None, 0.3))
    for device, seconds in (("cpu", CPU), ("gpu", GPU)):
        for batch in (128, 512):
            grid.add(device, seconds, batch=batch, event=as_error(batch))
    return grid.report()


def _decays(effect) -> Grid:
    """Two devices and two weight decays, whose accuracies `effect(device, decay)` shifts."""
    grid = Grid()
    for device in ("cpu", "gpu"):
        for decay in (1e-4, 5e-4):
            shifted = [effect(device, decay) + luck for luck in (0.0, 0.002, 0.004)]
            grid.add(
                device,
                CPU if device == "cpu" else GPU,
                axes={"weight_decay": decay},
                accuracies=shifted,
                weight_decay=decay,
            )
    return grid


def decay_decides() -> Report:
    return _decays(lambda device, decay: 0.02 * (decay == 5e-4)).report()


def effects_do_not_add_up() -> Report:
    return _decays(lambda device, decay: 0.02 * (decay == 5e-4 and device == "gpu")).report()


def confounded_axes() -> Report:
    """Each device had another weight decay and another batch size, one of them twice."""
    grid = Grid()
    for device, decay, batch in (("cpu", 1e-4, 64), ("gpu", 5e-4, 64), ("cpu", 1e-4, 128), ("gpu", 5e-4, 128)):
        grid.add(device, CPU if device == "cpu" else GPU, batch=batch, axes={"weight_decay": decay}, weight_decay=decay)
    return grid.report()


def one_run_of_each() -> Report:
    return make_report(aimed(made_up(("cpu", "gpu"), (128, 256), repeats=1), 0.78))


def three_frameworks() -> Report:
    """One processor in three frameworks, known from a journal alone: they are never folded into one device."""
    made = told_in_three_frameworks()
    made += [events.trial_skipped("0123456789ab-r0", "0123456789ab", "no TPU on any node")]
    return make_report(aimed(of_journal("three", latest(attempts(made).values())), 0.55))


REPORTS = {
    each.__name__: each
    for each in (
        much_went_wrong,
        contract,
        outcomes,
        prices,
        moving_machine,
        free_baseline,
        same_cell_twice,
        batches,
        too_few_runs,
        far_apart,
        many_settings,
        warmup_only,
        one_device,
        nothing_completed,
        nothing_at_all,
        stand_in_baseline,
        targets,
        training_accuracy_as_target,
        error_as_metric,
        decay_decides,
        effects_do_not_add_up,
        confounded_axes,
        one_run_of_each,
        three_frameworks,
    )
}
"""From a name to what makes the report."""
