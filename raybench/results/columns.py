"""Columns of the tables of `raybench.load`: the only declaration of name, type, unit and meaning.

Unknown values are missing values: NaN in a column of float64, <NA> in any other. They are never filled in with 0.
Seconds are wall time unless a column says otherwise.
"""

from __future__ import annotations

from typing import NamedTuple

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
    Column("grid", TEXT, "", "the grid's name; for other sources, the name of the source"),
    Column("trial", TEXT, "", "id of the trial: its configuration and its repeat"),
    Column("cell", TEXT, "", "id of its configuration, the same for all repeats"),
    Column("repeat", WHOLE, "", "the number of the repeat, from 0"),
    Column("attempt", WHOLE, "", "the number of the attempt, from 1"),
    Column("status", TEXT, "", "how it ended, such as completed, oom, diverged; missing while it runs"),
    Column(
        "current", YES_NO, "", "whether the last command ran its configuration, with the code of that time; if known"
    ),
    Column("label", TEXT, "", "a short name"),
    Column("runs", WHOLE, "runs", "number of runs in the row: 1, or more for published means and counts"),
    Column("started", TIME, "UTC", "start of its process"),
    Column("ended", TIME, "UTC", "end of its process"),
    Column("host", TEXT, "", "the name of its machine"),
]

MODEL = "model"
"""The setting with a column per option: the names and types of options depend on the workload."""


def _setting_column(setting: Setting) -> Column:
    """The column of a setting; a value that is not a number, a name or a boolean is JSON."""
    kinds = [TEXT if kind is None else kind for kind in map(_KINDS.get, setting.types)]
    kind = next((kind for kind in (NUMBER, TEXT) if kind in kinds), kinds[0])
    return Column(setting.name, kind, setting.unit, setting.description, ".".join(("settings", *setting.path)))


_KINDS = {bool: YES_NO, int: WHOLE, float: NUMBER}
_CELL = [
    Column("workload", TEXT, "", "the workload's name", "workload.name"),
    Column("workload_version", TEXT, "", "the version of a shipped workload", "workload.version"),
    Column("data", TEXT, "", "the data set", "data.name"),
    Column("data_digest", TEXT, "", "the digest of its content", "data.digest"),
    Column("train_examples", WHOLE, "examples", "number of training examples", "data.examples.train"),
    Column("val_examples", WHOLE, "examples", "number of validation examples", "data.examples.val"),
    Column("framework", TEXT, "", "torch, torch_xla, tensorflow, or a different one in a CSV", "framework"),
    Column("framework_version", TEXT, "", "its major and minor version", "engine.framework_version"),
    Column("environment", TEXT, "", "its Python environment, if it is not raybench's own", "engine.environment"),
    Column("device", TEXT, "", "the device's name in the grid: the axis `device`"),
    Column("device_kind", TEXT, "", "its kind, such as cpu or cuda", "device.kind"),
    Column("device_model", TEXT, "", "the hardware's own model name", "device.model"),
    Column("device_count", WHOLE, "", "number of accelerators, or of cores of a CPU", "device.count"),
    Column("replicas", WHOLE, "", "parts of each batch with separate batch-norm statistics", "device.replicas"),
    Column("devices", WHOLE, "", "devices that share each batch, if there are several", "device.devices"),
    Column("threads", WHOLE, "threads", "CPU threads of the framework", "device.threads"),
    *(_setting_column(setting) for name, setting in TRAINING.items() if name != MODEL),
    Column(
        "budget_s",
        NUMBER,
        "s",
        "the training time that its budget of time or price allows (`epochs_s`: what it took)",
        "budget.seconds",
    ),
    Column("budget_j", NUMBER, "J", "the energy that its budget allows", "budget.joules"),
    Column("warmup_epochs", WHOLE, "epochs", "first epochs that do not count as steady", "warmup_epochs"),
    Column("seed", WHOLE, "", "the seed of this trial"),
    Column("version", TEXT, "", "base or new, in a grid of `raybench compare --interleave`", "compared.version"),
]


def _column(quantity: Quantity) -> Column:
    dtype = {Kind.WHOLE: WHOLE, Kind.COUNT: WHOLE, Kind.FLAG: YES_NO}.get(quantity.kind, NUMBER)
    return Column(quantity.column, dtype, quantity.unit, quantity.meaning)


def _total(quantity: Quantity) -> Column:
    """The column that combines all epochs of a run."""
    is_max = quantity.over_epochs is Combine.MAX
    meaning = f"{quantity.meaning}{': the highest of its epochs' if is_max else ', over all its epochs'}"
    return _column(quantity)._replace(name=quantity.total, meaning=meaning)


_SECTIONS = [
    *(_total(quantity) for quantity in QUANTITIES if quantity.key and quantity.over_epochs),
    Column("setup_s", NUMBER, "s", "from the start of its process to its data"),
    Column("startup_s", NUMBER, "s", "of a command: from its start to that of its training"),
    Column("data_s", NUMBER, "s", "loading and preparing the data"),
    Column("build_s", NUMBER, "s", "building the model and the optimizer"),
    Column("other_s", NUMBER, "s", "all other time of its process"),
    Column("wall_s", NUMBER, "s", "from the start of its process to its end"),
    Column("template_import_s", NUMBER, "s", "loading the framework, before its process began"),
]

_TIMES = [Column(f"{name}_s", NUMBER, "s", str(rule.__doc__).partition("\n")[0]) for name, rule in timing.RULES.items()]

_EXAMPLES_PER_S = Column(
    "examples_per_s",
    NUMBER,
    "examples/s",
    "examples per second of training; of a trial, in steady epochs; a unit such as tokens has `tokens_per_s`",
)
_STEPS = (
    Column("steps_per_s", NUMBER, "steps/s", "steps per second of training, without compilation"),
    Column(
        "step_median_s", NUMBER, "s", "median time of a step, over at most 64 parts of an epoch; if steps are timed"
    ),
    Column("step_p95_s", NUMBER, "s", "time that 95% of these do not exceed"),
)

_RESULTS = [
    Column("steady_cpu_s", NUMBER, "s", "processor time of a steady epoch, the mean: a cross-check"),
    _EXAMPLES_PER_S,
    *_STEPS,
    Column("epochs_done", WHOLE, "epochs", "number of completed epochs"),
    *(_total(quantity) for quantity in QUANTITIES if quantity.over_epochs and not quantity.key),
    Column("best_val_accuracy", NUMBER, "fraction", "the highest accuracy of its epochs; missing if it diverged"),
    Column("last_val_accuracy", NUMBER, "fraction", "the last validation accuracy; missing if it diverged"),
    Column("last_val_loss", NUMBER, "", "the last validation loss"),
    Column("last_train_accuracy", NUMBER, "fraction", "the last training accuracy"),
    Column("last_train_loss", NUMBER, "", "the last training loss"),
    Column("target_metric", TEXT, "", "the metric of the target; missing without a target"),
    Column("target_at_least", NUMBER, "", "the target is reached at this value or more"),
    Column("target_at_most", NUMBER, "", "the target is reached at this value or less"),
    Column("target_reached", YES_NO, "", "whether an epoch reached it; missing without a target"),
    Column("time_to_target_s", NUMBER, "s", "training time until the target; missing if it was not reached"),
    Column("epochs_to_target", WHOLE, "epochs", "epochs until the target"),
    Column("bottleneck", TEXT, "", "the bottleneck: compute, memory, input or overhead"),
    Column("flop_rate", NUMBER, "FLOP/s", "FLOPs of the model per second of steady epochs"),
    Column("mfu", NUMBER, "fraction", "flop_rate over the measured peak of its devices"),
    Column("datasheet_mfu", NUMBER, "fraction", "the same over the peak of the vendor's data sheet, if it is known"),
    Column("memory_share", NUMBER, "fraction", "memory traffic, relative to the probe on its device"),
    Column("input_share", NUMBER, "fraction", "fraction of the steady time that it waited for input"),
    Column("findings", TEXT, "", "codes of its cautions and notes, separated by commas"),
    Column("decay_check", TEXT, "", "result of the weight-decay check"),
    Column("decay_factor", NUMBER, "", "the effective decay as a multiple of the declared one"),
    Column("price_per_hour", NUMBER, "currency/h", "price of its device, in the currency of its grid"),
    Column("total_price", NUMBER, "currency", "price of the whole run"),
    Column("energy_j", NUMBER, "J", "energy of the device in all its epochs, with evaluation; missing if not measured"),
    Column("steady_energy_j", NUMBER, "J", "energy of the device in a steady epoch, with its evaluation"),
    Column("example_energy_j", NUMBER, "J", "the same per training example"),
    Column("target_energy_j", NUMBER, "J", "energy of the device until the target; missing if it was not reached"),
    Column("host_energy_j", NUMBER, "J", "energy of an accelerator's host, its sockets and memory, in all its epochs"),
    Column("steady_host_energy_j", NUMBER, "J", "the same in a steady epoch"),
    Column("energy_missing", TEXT, "", "why energy was not measurable"),
    Column("error", TEXT, "", "type and message of its error, or the reason why it was skipped"),
    Column("error_where", TEXT, "", "file and line of its error: of the user's own code, if it was raised there"),
    Column("warnings", TEXT, "", "warnings about its results, one per line"),
]

TRIALS = (*_IDENTITY, *_CELL, *_SECTIONS, *_TIMES, *_RESULTS)
"""Columns of the table of trials. Other values of a cell have columns by their dotted names, with text as JSON."""

EPOCHS = (
    Column("grid", TEXT, "", "as in the table of trials"),
    Column("trial", TEXT, "", "as in the table of trials"),
    Column("attempt", WHOLE, "", "as in the table of trials"),
    Column("epoch", WHOLE, "", "from 1"),
    Column("ended", TIME, "UTC", "end of the epoch"),
    Column("steady", YES_NO, "", "whether it is after the warm-up"),
    *(_column(quantity) for quantity in QUANTITIES if quantity.field == "ledger"),
    Column("epoch_s", NUMBER, "s", "compile_s + train_s + input_wait_s"),
    Column("elapsed_s", NUMBER, "s", "epoch_s of this epoch and all before it"),
    _EXAMPLES_PER_S,
    *_STEPS,
    *(_column(quantity) for quantity in QUANTITIES if quantity.field != "ledger"),
    Column("energy_j", NUMBER, "J", "energy of the device, with evaluation; missing if the epoch is too short for it"),
    Column("host_energy_j", NUMBER, "J", "energy of an accelerator's host, its sockets and memory"),
)
"""Columns of the table of epochs. Metrics have columns by their own names, such as `val/accuracy`, of float64; what a
trial counts has two, such as `units/tokens` and `tokens_per_s`."""
