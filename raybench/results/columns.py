"""Columns of the tables of `raybench.load`: the only declaration of name, type, unit and meaning.

Unknown values are missing values: NaN in a column of float64, <NA> in any other. They are never filled in with 0.
Seconds are wall time unless a column says otherwise.
"""

from __future__ import annotations

from typing import NamedTuple

from raybench.core.ledger import STEP_SECTIONS
from raybench.core.settings import TRAINING, Setting
from raybench.results import timing
from raybench.results.epoch import QUANTITIES, Combine, Kind, Quantity


class Column(NamedTuple):
    """One column.

    Attributes:
        dtype: pandas' name of its type.
        unit: unit of its numbers; empty if they have none.
        meaning: one-line description.
        leaf: dotted path of its value in a cell; empty if it is not part of a cell.
    """

    name: str
    dtype: str
    unit: str
    meaning: str
    leaf: str = ""


TEXT, WHOLE, NUMBER, YES_NO, TIME = "string", "Int64", "float64", "boolean", "datetime64[ms, UTC]"

_IDENTITY = [
    Column("grid", TEXT, "", "the grid it was run for; of other sources, what the source is called"),
    Column("smoke", YES_NO, "", "whether it was cut to see that the grid runs, so that no number of it is a result"),
    Column("trial", TEXT, "", "what names the trial: its cell and its repeat"),
    Column("cell", TEXT, "", "what names its cell: the same for all repeats"),
    Column("repeat", WHOLE, "", "the number of the repeat, from 0"),
    Column("attempt", WHOLE, "", "the number of the attempt, from 1; 0 where the trial was skipped"),
    Column("status", TEXT, "", "how it ended, such as completed, oom, diverged; none while it runs"),
    Column("requested", YES_NO, "", "whether the grid, as it was run last, asks for this trial; none if not known"),
    Column("label", TEXT, "", "a short name; where cells share it, with the settings in which they differ"),
    Column("runs", WHOLE, "runs", "how many runs the row stands for: 1, and more only in published means and counts"),
    Column("started", TIME, "UTC", "when its process was up"),
    Column("ended", TIME, "UTC", "when it was over"),
    Column("host", TEXT, "", "the name of the machine it ran on"),
]

MODEL = "model"
"""The setting with a column per option: the names and types of options depend on the workload."""


def _setting_column(setting: Setting) -> Column:
    """The column of a setting.

    A value that is not a number, a name or a boolean is JSON.
    """
    kinds = [TEXT if kind is None else kind for kind in map(_KINDS.get, setting.types)]
    kind = NUMBER if NUMBER in kinds else kinds[0]
    return Column(setting.name, kind, setting.unit, setting.description, ".".join(("settings", *setting.path)))


_KINDS = {bool: YES_NO, int: WHOLE, float: NUMBER}
_CELL = [
    Column("workload", TEXT, "", "what was trained", "workload.name"),
    Column("workload_version", TEXT, "", "the version of a shipped workload", "workload.version"),
    Column("data", TEXT, "", "the data set", "data.name"),
    Column("data_digest", TEXT, "", "what was in it", "data.digest"),
    Column("train_examples", WHOLE, "examples", "how many there are to train on", "data.examples.train"),
    Column("val_examples", WHOLE, "examples", "how many there are to evaluate on", "data.examples.val"),
    Column("framework", TEXT, "", "torch, torch_xla, tensorflow or, published, another", "framework"),
    Column("framework_version", TEXT, "", "its major and minor version", "engine.framework_version"),
    Column("engine_version", WHOLE, "", "the version of raybench's training loop in it", "engine.version"),
    Column("device", TEXT, "", "the device's name in the grid: the axis `device`"),
    Column("device_kind", TEXT, "", "its kind, such as cpu or cuda", "device.kind"),
    Column("device_model", TEXT, "", "the hardware, as it names itself", "device.model"),
    Column("device_count", WHOLE, "", "how many accelerators, or cores of a CPU, it had", "device.count"),
    Column("replicas", WHOLE, "", "copies of the model that share each batch", "device.replicas"),
    Column("replication", TEXT, "", "how replicas were made: grouped, devices or spmd", "device.replication"),
    Column("devices", WHOLE, "", "devices that share the replicas", "device.devices"),
    Column("threads", WHOLE, "threads", "the framework computed with on the CPU", "device.threads"),
    *(_setting_column(setting) for name, setting in TRAINING.items() if name != MODEL),
    Column("warmup_epochs", WHOLE, "epochs", "at the beginning that do not count as steady", "warmup_epochs"),
    Column("seed", WHOLE, "", "of this trial"),
    Column("aa_of", TEXT, "", "the cell that this one is once more under another name, for an A/A check", "aa_of"),
]


def _column(quantity: Quantity) -> Column:
    dtype = WHOLE if quantity.kind in (Kind.WHOLE, Kind.COUNT) else NUMBER
    return Column(quantity.column, dtype, quantity.unit, quantity.meaning)


def _total(quantity: Quantity) -> Column:
    """The column that combines all epochs of a run."""
    is_max = quantity.over_epochs is Combine.MAX
    meaning = f"{quantity.meaning}{': the highest of its epochs' if is_max else ', over all its epochs'}"
    return _column(quantity)._replace(name=quantity.total, meaning=meaning)


_SECTIONS = [
    *(_total(quantity) for quantity in QUANTITIES if quantity.key and quantity.over_epochs),
    Column("setup_s", NUMBER, "s", "from the start of its process to its data"),
    Column("data_s", NUMBER, "s", "loading and preparing the data"),
    Column("build_s", NUMBER, "s", "making the model and the optimiser"),
    Column("other_s", NUMBER, "s", "in its process and in no other section"),
    Column("wall_s", NUMBER, "s", "from the start of its process to its end"),
    Column("template_import_s", NUMBER, "s", "loading the framework, before its process began"),
]

_RULES = {
    "steady": "The headline: the median of train + input_wait over the epochs after the warm-up, a time for one epoch",
    "mean_steady": "As `steady`, with the mean instead of the median",
    "first": "The first, cold epoch: its compile + train + input_wait",
    "epochs": "Training alone: compile + train + input_wait of every epoch",
    "total": "Everything: loading the framework, and the process from its start to its end",
    "airbench": "As airbench reports: train + input_wait of every epoch, and the last evaluation; no compilation, no "
    "loading",
    "dawnbench": "As DAWNBench counts: preparing the data, then train + input_wait of every epoch; no evaluation",
    "mlperf": "As MLPerf counts: the wall time less setup, build and compile, of which at most 1,200 s are left out",
}
"""One-line description of each rule; not taken from docstrings, which `python -OO` removes."""

_TIMES = [Column(f"{name}_s", NUMBER, "s", f"by the rule {name}. {_RULES[name]}") for name in timing.RULES]

_RESULTS = [
    Column("steady_cpu_s", NUMBER, "s", "processor time of a steady epoch, the mean: a cross-check"),
    Column("examples_per_s", NUMBER, "examples/s", "trained on in steady epochs"),
    Column("epochs_done", WHOLE, "epochs", "that came to their end"),
    *(_total(quantity) for quantity in QUANTITIES if quantity.over_epochs and not quantity.key),
    Column("best_val_accuracy", NUMBER, "fraction", "the highest of its epochs"),
    Column("last_val_accuracy", NUMBER, "fraction", "of the last epoch"),
    Column("last_val_loss", NUMBER, "", "of the last epoch"),
    Column("last_train_accuracy", NUMBER, "fraction", "of the last epoch"),
    Column("last_train_loss", NUMBER, "", "of the last epoch"),
    Column("target_metric", TEXT, "", "the metric that the target is of; none where no target was set"),
    Column("target_at_least", NUMBER, "", "reached with this or more"),
    Column("target_at_most", NUMBER, "", "reached with this or less"),
    Column("target_reached", YES_NO, "", "whether an epoch reached it; none where no target was set"),
    Column("target_runs", WHOLE, "runs", "how many of the row's runs reached the target; none where none was set"),
    Column("time_to_target_s", NUMBER, "s", "of training until the target; none where it was not reached"),
    Column("epochs_to_target", WHOLE, "epochs", "until the target"),
    Column("bottleneck", TEXT, "", "what held it up: compute, memory, input or overhead"),
    Column("compute_share", NUMBER, "fraction", "of what probes of arithmetic reached on its device"),
    Column("memory_share", NUMBER, "fraction", "of what a probe of memory reached on its device"),
    Column("input_share", NUMBER, "fraction", "of the steady time in which it waited for input"),
    Column("findings", TEXT, "", "codes of its caveats and notes, with commas between"),
    Column("decay_check", TEXT, "", "what the proof of its weight decay came to"),
    Column("decay_factor", NUMBER, "", "the multiple of the declared decay that acts"),
    Column("profile_steps", WHOLE, "steps", "after training, in which the sections of a step were timed"),
    *(Column(f"profile_{name}_s", NUMBER, "s", f"in {name}, of a step: the median of those") for name in STEP_SECTIONS),
    Column("price_per_hour", NUMBER, "currency/h", "of its device, in the one currency of its grid"),
    Column("total_price", NUMBER, "currency", "of the whole run"),
    Column("reported_s", NUMBER, "s", "what the source itself reported; none for runs of raybench"),
    Column("reported_rule", TEXT, "", "by which rule it did, as raybench calls it; none where it has none"),
    Column("error", TEXT, "", "its type and message, or why it was skipped"),
    Column("warnings", TEXT, "", "what its results have to be read with, a line each"),
]

TRIALS = (*_IDENTITY, *_CELL, *_SECTIONS, *_TIMES, *_RESULTS)
"""Columns of the table of trials. Other values of a cell have columns by their dotted names, with text as JSON."""

EPOCHS = (
    Column("grid", TEXT, "", "as in the table of trials"),
    Column("trial", TEXT, "", "as in the table of trials"),
    Column("attempt", WHOLE, "", "as in the table of trials"),
    Column("epoch", WHOLE, "", "from 1"),
    Column("ended", TIME, "UTC", "when it was over"),
    Column("steady", YES_NO, "", "whether it comes after the warm-up"),
    *(_column(quantity) for quantity in QUANTITIES if quantity.key and quantity.missing is not None),
    Column("epoch_s", NUMBER, "s", "compile_s + train_s + input_wait_s"),
    Column("elapsed_s", NUMBER, "s", "epoch_s of this epoch and all before it"),
    *(_column(quantity) for quantity in QUANTITIES if not quantity.key or quantity.missing is None),
)
"""Columns of the table of epochs. Metrics have columns by their own names, such as `val/accuracy`, of float64."""

CELLS = (
    Column("grid", TEXT, "", "the grid's name"),
    Column("cell", TEXT, "", "identifies the cell; as in the table of trials"),
    Column("label", TEXT, "", "the cell's values on the axes that vary, such as `gpu b512 wd5e-4`"),
    Column("planned", WHOLE, "runs", "requested repeats"),
    Column("completed", WHOLE, "runs", "completed repeats, which times and metrics are of"),
    Column("skip", TEXT, "", "the reason why the cell cannot run; missing if it can"),
    Column("steady_s", NUMBER, "s", "time of a steady epoch, geometric mean over runs"),
    Column("steady_min_s", NUMBER, "s", "its minimum over runs"),
    Column("steady_max_s", NUMBER, "s", "its maximum over runs"),
    Column("metric", TEXT, "", "the metric of quality, such as val/accuracy"),
    Column("metric_mean", NUMBER, "", "its value after the last epoch, mean over runs; an accuracy is a fraction"),
    Column("metric_min", NUMBER, "", "its minimum over runs"),
    Column("metric_max", NUMBER, "", "its maximum over runs"),
    Column("is_baseline", YES_NO, "", "whether other cells are compared with this one"),
    Column("speedup", NUMBER, "ratio", "baseline time ÷ time; above 1 if the cell is faster than its baseline"),
    Column("speedup_low", NUMBER, "ratio", "lower end of its 95% confidence interval; missing with one run"),
    Column("speedup_high", NUMBER, "ratio", "upper end of its 95% confidence interval; missing with one run"),
    Column("per_example", YES_NO, "", "whether the speed-up is of examples per second, as epochs differ in size"),
    Column("target_runs", WHOLE, "runs", "runs that reached the target; missing without a target"),
    Column("time_to_target_s", NUMBER, "s", "expected training time to the target, with a restart after each miss"),
    Column("time_to_target_low_s", NUMBER, "s", "lower end of its 95% confidence interval"),
    Column("time_to_target_high_s", NUMBER, "s", "upper end of its 95% confidence interval"),
    Column("bottleneck", TEXT, "", "what limits most of its runs: compute, memory, input or overhead"),
    Column("epoch_price", NUMBER, "currency", "price of a steady epoch, in the grid's currency"),
    Column("total_price", NUMBER, "currency", "price of a whole run, median over runs"),
    Column("caveats", TEXT, "", "codes of findings that could reverse a comparison, separated by commas"),
)
"""Columns of the table of cells. The axes of the grid have columns by their own names, after these."""

COMPARISON = (
    Column("label", TEXT, "", "the cell; as in the table of cells"),
    Column("baseline", TEXT, "", "the label of the cell it is compared with, which differs in the axis alone"),
    Column("ratio", NUMBER, "ratio", "time of the baseline ÷ time of the cell: above 1 if the cell is faster"),
    Column("low", NUMBER, "ratio", "lower end of the 95% confidence interval; missing with one run"),
    Column("high", NUMBER, "ratio", "upper end of the 95% confidence interval; missing with one run"),
    Column("runs", WHOLE, "runs", "completed runs of the cell"),
    Column("baseline_runs", WHOLE, "runs", "completed runs of the baseline"),
    Column("paired", YES_NO, "", "whether the interval compares runs repeat by repeat"),
    Column("per_example", YES_NO, "", "whether the ratio is of examples per second, as epochs differ in size"),
    Column("caveats", TEXT, "", "codes of findings that could reverse the comparison, separated by commas"),
)
"""Columns of a comparison. The axes of the grid have columns by their own names, after these."""
