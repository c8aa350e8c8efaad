"""The columns of the tables that `raybench.load` gives: name, type, unit and meaning, each said here and nowhere else.

Where nothing is known a column has no value: NaN in a column of float64, <NA> in any other. Nothing is ever filled in
with a 0. Seconds are wall time unless a column says otherwise.
"""

from __future__ import annotations

from typing import NamedTuple

from raybench.analysis import rules
from raybench.trial.ledger import STEP_SECTIONS


class Column(NamedTuple):
    """One column.

    Attributes:
        dtype: pandas' name of its type.
        unit: of its numbers; empty where they have none.
        meaning: what it says, in a line.
        leaf: where in a cell it stands, by its dotted name; empty for what is no part of a cell.
        stored: whether an MLflow store has it; the journal has every one.
    """

    name: str
    dtype: str
    unit: str
    meaning: str
    leaf: str = ""
    stored: bool = True


TEXT, WHOLE, NUMBER, YES_NO, TIME = "string", "Int64", "float64", "boolean", "datetime64[ms, UTC]"

_IDENTITY = [
    Column("grid", TEXT, "", "the grid it was run for; of other sources, what the source is called"),
    Column("smoke", YES_NO, "", "whether it was cut to see that the grid runs, so that no number of it is a result"),
    Column("trial", TEXT, "", "what names the trial: its cell and its repeat"),
    Column("cell", TEXT, "", "what names its cell: the same for all repeats"),
    Column("repeat", WHOLE, "", "the number of the repeat, from 0"),
    Column("attempt", WHOLE, "", "the number of the attempt, from 1; 0 where the trial was skipped"),
    Column("status", TEXT, "", "how it ended, such as completed, oom, diverged; none while it runs"),
    Column("label", TEXT, "", "what a person calls it"),
    Column("runs", WHOLE, "runs", "how many runs the row stands for: 1, and more only in published means and counts"),
    Column("started", TIME, "UTC", "when its process was up"),
    Column("ended", TIME, "UTC", "when it was over"),
    Column("host", TEXT, "", "the name of the machine it ran on"),
]

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
    Column("device_kind", TEXT, "", "cpu, cuda, mps, tpu or xla_cpu", "device.kind"),
    Column("device_model", TEXT, "", "the hardware, as it names itself", "device.model"),
    Column("device_count", WHOLE, "", "how many accelerators, or cores of a CPU, it had", "device.count"),
    Column("replicas", WHOLE, "", "copies of the model that share each batch", "device.replicas"),
    Column("replication", TEXT, "", "how replicas were made: grouped, devices or spmd", "device.replication"),
    Column("devices", WHOLE, "", "devices that share the replicas", "device.devices"),
    Column("threads", WHOLE, "threads", "the framework computed with on the CPU", "device.threads"),
    Column("batch_size", WHOLE, "examples", "the global batch", "settings.batch_size"),
    Column("weight_decay", NUMBER, "", "λ, for a mean loss", "settings.weight_decay"),
    Column("decay", TEXT, "", "coupled or decoupled", "settings.decay"),
    Column("decay_rule", TEXT, "", "mean, or sum_over_replicas: the published trap", "settings.decay_rule"),
    Column("optimizer", TEXT, "", "sgd, adam or adamw", "settings.optimizer.name"),
    Column("learning_rate", NUMBER, "", "what the schedule multiplies", "settings.optimizer.learning_rate"),
    Column("momentum", NUMBER, "", "of sgd", "settings.optimizer.momentum"),
    Column("nesterov", YES_NO, "", "of sgd", "settings.optimizer.nesterov"),
    Column("betas", TEXT, "", "of adam and adamw, as JSON", "settings.optimizer.betas"),
    Column("eps", NUMBER, "", "of adam and adamw", "settings.optimizer.eps"),
    Column("schedule", TEXT, "", "of the learning rate: its name or, where it has points, JSON", "settings.schedule"),
    Column("precision", TEXT, "", "fp32, tf32, bf16 or fp16", "settings.precision"),
    Column("compile", YES_NO, "", "whether the model was compiled", "settings.compile"),
    Column("channels_last", YES_NO, "", "whether pictures had their channels last in memory", "settings.channels_last"),
    Column("input", TEXT, "", "device: the data set lived there; host: it was streamed", "settings.input"),
    Column("augmentation", TEXT, "", "what was done to pictures, as JSON", "settings.augmentation"),
    Column("epochs", NUMBER, "epochs", "asked for", "settings.epochs"),
    Column("steps_per_epoch", WHOLE, "steps", "asked for; none for all there are", "settings.steps_per_epoch"),
    Column("steps_per_execution", WHOLE, "steps", "in one call of the framework", "settings.steps_per_execution"),
    Column(
        "sections",
        YES_NO,
        "",
        "whether steps were timed by sections: no time of such a run is one",
        "settings.sections",
    ),
    Column(
        "evaluation_batch_size", WHOLE, "examples", "asked for; none: raybench's own", "settings.evaluation_batch_size"
    ),
    Column(
        "timed_for", NUMBER, "epochs", "for which it was only timed, in a factored study; none: trained", "timed_for"
    ),
    Column("warmup_epochs", WHOLE, "epochs", "at the beginning that do not count as steady", "warmup_epochs"),
    Column("seed", WHOLE, "", "of this trial"),
    Column("again", TEXT, "", "the cell that this one is once more under another name, for an A/A check", "again"),
]

_SECTIONS = [
    Column("train_s", NUMBER, "s", "in steps of training, over all its epochs"),
    Column("input_wait_s", NUMBER, "s", "waiting for the next batch, over all its epochs"),
    Column("compile_s", NUMBER, "s", "in the first step of each new shape beyond a steady one, over all its epochs"),
    Column("evaluate_s", NUMBER, "s", "in evaluation, over all its epochs"),
    Column("setup_s", NUMBER, "s", "from the start of its process to its data", stored=False),
    Column("data_s", NUMBER, "s", "loading and preparing the data", stored=False),
    Column("build_s", NUMBER, "s", "making the model and the optimiser", stored=False),
    Column("other_s", NUMBER, "s", "in its process and in no other section", stored=False),
    Column("wall_s", NUMBER, "s", "from the start of its process to its end", stored=False),
    Column("template_import_s", NUMBER, "s", "loading the framework, before its process began", stored=False),
]

_NOT_STORED = ("dawnbench", "mlperf")
"""Rules that count sections of the whole process, which MLflow does not have."""


def _first_line(rule: rules.Rule) -> str:
    return (rule.__doc__ or "").splitlines()[0].rstrip(".")


_TIMES = [
    Column(f"{name}_s", NUMBER, "s", f"by the rule {name}. {_first_line(rule)}", stored=name not in _NOT_STORED)
    for name, rule in rules.RULES.items()
]

_RESULTS = [
    Column("steady_cpu_s", NUMBER, "s", "processor time of a steady epoch, the mean: a cross-check", stored=False),
    Column("examples_per_s", NUMBER, "examples/s", "trained on in steady epochs"),
    Column("epochs_done", WHOLE, "epochs", "that came to their end"),
    Column("examples_done", WHOLE, "examples", "trained on, over all its epochs: its accuracy is that after so many"),
    Column("best_val_accuracy", NUMBER, "fraction", "the highest of its epochs; none, as below, if it was only timed"),
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
    Column("peak_memory_bytes", WHOLE, "bytes", "the most, of the device; of the process where that is the CPU"),
    Column("recompiles", WHOLE, "", "shapes that were new, over all its epochs", stored=False),
    Column("bound_by", TEXT, "", "what held it up: compute, memory, input or overhead"),
    Column("compute_share", NUMBER, "fraction", "of what probes of arithmetic reached on its device"),
    Column("memory_share", NUMBER, "fraction", "of what a probe of memory reached on its device"),
    Column("input_share", NUMBER, "fraction", "of the steady time in which it waited for input"),
    Column("findings", TEXT, "", "codes of what there is to doubt of it or to note, with commas between"),
    Column("decay_proof", TEXT, "", "what the proof of its weight decay came to"),
    Column("decay_factor", NUMBER, "", "the multiple of the declared decay that acts"),
    Column("price_per_hour", NUMBER, "currency/h", "of its device, in the one currency of its grid"),
    Column("total_price", NUMBER, "currency", "of the whole run"),
    Column("reported_s", NUMBER, "s", "what the source itself reported; none for runs of raybench"),
    Column("reported_rule", TEXT, "", "by which rule it did, as raybench calls it; none where it has none"),
    Column("error", TEXT, "", "its type and message, or why it was skipped", stored=False),
    Column("warnings", TEXT, "", "what its results have to be read with, a line each", stored=False),
]

TRIALS = (*_IDENTITY, *_CELL, *_SECTIONS, *_TIMES, *_RESULTS)
"""A row for each trial. Whatever else is in a cell has a column too, by its dotted name, with text as JSON has it."""

EPOCHS = (
    Column("grid", TEXT, "", "as in the table of trials"),
    Column("trial", TEXT, "", "as in the table of trials"),
    Column("attempt", WHOLE, "", "as in the table of trials"),
    Column("epoch", WHOLE, "", "from 1"),
    Column("ended", TIME, "UTC", "when it was over"),
    Column("steady", YES_NO, "", "whether it comes after the warm-up"),
    Column("train_s", NUMBER, "s", "in steps of training"),
    Column("input_wait_s", NUMBER, "s", "waiting for the next batch"),
    Column("compile_s", NUMBER, "s", "in the first step of each new shape beyond a steady one"),
    Column("evaluate_s", NUMBER, "s", "in the evaluation after it"),
    Column("epoch_s", NUMBER, "s", "compile_s + train_s + input_wait_s"),
    Column("elapsed_s", NUMBER, "s", "epoch_s of this epoch and all before it"),
    Column("cpu_s", NUMBER, "s", "processor time of the process", stored=False),
    Column("device_train_s", NUMBER, "s", "train_s by the device's own clock, where it has one", stored=False),
    Column("device_evaluate_s", NUMBER, "s", "evaluate_s by the same", stored=False),
    Column("steps", WHOLE, "steps", "of the optimiser", stored=False),
    Column("examples", WHOLE, "examples", "trained on"),
    Column("peak_memory_bytes", WHOLE, "bytes", "the most since the trial began"),
    Column("recompiles", WHOLE, "", "shapes that were new", stored=False),
    *(Column(f"section_{name}_s", NUMBER, "s", f"in {name}, of steps timed by sections") for name in STEP_SECTIONS),
)
"""A row for each epoch. Its metrics have columns by their own names, such as `val/accuracy`, of float64."""
