"""What the plan knows of a workload: a class per form with the same methods, so that callers need not ask for the form.

The forms are a declared workload, which an engine of raybench trains, and the two whose loop is the user's: a training
function, and a command.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Set
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Self

from raybench.core.cell import (
    COMMAND,
    FUNCTION,
    UNKNOWN_SETTINGS,
    Cell,
    CellData,
    CellWorkload,
    Examples,
)
from raybench.core.settings import DEFAULTS, MISSING, PARAM, TRAINING, Settings
from raybench.core.text import join_words
from raybench.errors import WorkloadError, close, nearest
from raybench.workloads.command import ARGS, BY_TRIAL, EPOCH, OF_NODES, SPECIAL, Command, placeholders
from raybench.workloads.parameters import PASSED, Parameter, key_of, with_other_batch_size

SUPERVISION = frozenset(
    {
        "framework",
        "environment",
        "count",
        "nodes",
        "threads",
        "cpus",
        "warmup_epochs",
        "timeout",
        "memory_limit",
        "power_limit",
    }
)
"""Settings that raybench itself applies to the process of any training."""

BY_LOOP = BY_TRIAL | {"checkpoint_every"}
"""Settings that raybench itself applies to a loop that reports its epochs to a `Trial`."""

ARITHMETIC = ("fp32", "tf32")
"""Values of `precision` that raybench itself applies; any other has to be a parameter of the function."""

OF_ENGINES_ONLY = {
    "model": "write params: {model: …}, on an axis params.model",
    "replicas": "only raybench's own loop divides a batch; set count",
    "examples": "it loads its own data; give it a parameter for their number under params",
}
"""Settings that only raybench's own loops have."""

KEPT = ("epochs", "steps_per_epoch", "precision")
"""Settings of a training function that are part of its cell if they are given, whether they are parameters or not."""

NEEDS_TRIAL = "needs raybench.current_trial() in the script of the command"

MAX_FILE_NAMES = 5  # files of a workload that are named one by one


@dataclass(frozen=True)
class WorkloadInfo(ABC):
    """What the plan knows of a workload, as plain values for other processes.

    Attributes:
        form: its name in a cell; empty for a declared workload.
        noun: a word for the form.
        divides_batch: whether raybench divides each batch into replicas.
        output: how a trial calls its folder for what it writes; empty if it writes nothing.
        guesses_metrics: whether metrics are recognized in its output.
        counts_work: whether its work is counted while it runs, so that a budget can be of it.
        program: the program that has to be installed; empty if it is not known.
        first_metric: the metric of quality, unless the grid names one; empty if it is not known.
        unshrunk: settings that a smoke run leaves as they are.
        name: the workload's name.
        version: of a built-in workload; None for a user's own.
        digest: of a user's files; None for a built-in workload.
        dataset: the data set, or None if it has its own data function.
        defaults, held_out, frameworks, options, small_model, metric_names: as in `Workload`; `metric_names` is empty if
            they are known only in a trial.
        own_loss: whether it has a different loss than cross-entropy.
        file: the path of a user's file, as found; None for a built-in workload and a command.
        attribute: the name in it.
        folder: the absolute folder in which a user's workload runs; empty for a built-in one.
        files: the user's files, by path relative to the folder, with their digests.
        libraries: other modules that these import, by their top-level names, if they are part of its cells.
        isolate: whether a trial runs in a copy of these files instead.
        parameters: of a training function, by name.
    """

    form: ClassVar[str] = ""
    noun: ClassVar[str] = ""
    divides_batch: ClassVar[bool] = False
    output: ClassVar[str] = ""
    guesses_metrics = False
    counts_work = True
    program = first_metric = ""
    unshrunk: ClassVar[Set[str]] = frozenset()

    name: str
    version: int | None = None
    digest: str | None = None
    dataset: str | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)
    held_out: int = 0
    frameworks: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    small_model: Mapping[str, Any] = field(default_factory=dict)
    metric_names: tuple[str, ...] = ()
    own_loss: bool = False
    file: str | None = None
    attribute: str = ""
    folder: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    libraries: tuple[str, ...] | None = None
    isolate: bool = False
    parameters: Mapping[str, Parameter] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The properties as plain values."""
        return {"form": self.form, **asdict(self)}

    @abstractmethod
    def identity(self) -> CellWorkload:
        """The part of a cell: its name, and its version or its files' digest."""

    @classmethod
    @abstractmethod
    def runs_in(cls, engines: tuple[str, ...], loops: tuple[str, ...]) -> tuple[str, ...]:
        """The frameworks that can run it: of those with an engine on a device, and of all that a loop can use there."""

    @classmethod
    @abstractmethod
    def shares_batch(cls, spreads: bool, on_host: bool) -> bool:
        """Return whether several devices can share a batch, if the framework spreads, or on a host."""

    @classmethod
    def spans_nodes(cls, has_ranks: bool) -> bool:
        """Return whether several nodes can share a batch, if the framework has ranks."""
        return has_ranks

    def tells_devices(self, given: Collection[str]) -> bool:
        """Return whether its process learns the number of devices, even if it is 1, with these settings."""
        return False

    @property
    @abstractmethod
    def cell_defaults(self) -> dict[str, Any]:
        """The settings of a cell that the grid does not give."""

    @property
    @abstractmethod
    def applied(self) -> Set[str]:
        """Settings that raybench itself applies to its training."""

    @property
    def arguments(self) -> Set[str]:
        """The names of settings and parameters that it receives."""
        return frozenset()

    @abstractmethod
    def values(self, resolved: Mapping[str, Any], ineffective: Set[str]) -> tuple[Settings, dict[str, Any]]:
        """The settings and the parameters of a cell.

        Args:
            ineffective: settings that an engine would ignore.

        Raises:
            WorkloadError: one is missing, or does not suit it.
        """

    def data(self, resolved: Mapping[str, Any], digest: str | None, available: Mapping[str, int]) -> CellData:
        """The data of a cell, by digest and number of examples of each split; the user's own loop loads them itself."""
        return CellData(name=self.name)

    def without_effect(self, resolved: Mapping[str, Any], on_host: bool) -> str | None:
        """The reason why a number of devices or nodes would have no effect, or None."""
        return None

    @property
    def edited(self) -> tuple[str, ...]:
        """What makes new trials if the user edits it, in words."""
        return ()

    @property
    def shared_output(self) -> str:
        """How to name an output folder, if trials at the same time may write to the same one."""
        return "" if self.isolate else self.output

    def as_version(self, job: str) -> Self:
        """The workload as one of two versions of a job: only runs of one name are compared."""
        return self

    @property
    def place(self) -> str:
        """File and line of a training function; empty for any other workload."""
        return ""

    def unknown_metric(self, metric: str) -> str | None:
        """The message if it has no metric of this name; None if it has, or if this is unknown."""
        names = (*self.metric_names, "loss") if self.metric_names else ()
        metrics = [f"{split}/{name}" for split in ("val", "train") for name in names]
        if not metrics or metric in metrics:
            return None
        hint = _near_metric(metric, metrics) or f"use one of {', '.join(metrics)}"
        return f"{self.name} has no metric {metric[:60]!r}; {hint}"

    @abstractmethod
    def misplaced(self, name: str) -> str | None:
        """The problem of a key of the grid that it cannot have; None if it can."""

    def unused(self, name: str) -> str | None:
        """The problem of a key that neither it nor raybench uses; None if one does."""
        return None

    def unsuitable(self, name: str, value: Any) -> str | None:
        """The problem of a value with its parameter, or None."""
        return None


class DeclaredInfo(WorkloadInfo):
    """A model with its data and recipe, built-in or in the user's file, that an engine of raybench trains."""

    divides_batch = True

    def identity(self) -> CellWorkload:
        return CellWorkload(self.name, digest=self.digest) if self.digest else CellWorkload(self.name, self.version)

    @classmethod
    def runs_in(cls, engines: tuple[str, ...], loops: tuple[str, ...]) -> tuple[str, ...]:
        return engines

    @classmethod
    def shares_batch(cls, spreads: bool, on_host: bool) -> bool:
        return spreads

    @property
    def cell_defaults(self) -> dict[str, Any]:
        return {**DEFAULTS, **self.defaults}

    @property
    def applied(self) -> Set[str]:
        return frozenset(TRAINING) | SUPERVISION | BY_LOOP | {"examples"}

    def values(self, resolved: Mapping[str, Any], ineffective: Set[str]) -> tuple[Settings, dict[str, Any]]:
        if resolved.get("label_smoothing") and self.own_loss:
            message = f"needs cross-entropy, but {self.name} has its own loss; remove it"
            raise WorkloadError(message, "label_smoothing")
        schedule = resolved.get("schedule")
        is_relative = isinstance(schedule, Mapping) and (schedule.get("stretch") or schedule["name"] == "cosine")
        if not resolved.get("epochs") and is_relative:
            message = "the schedule of the learning rate stretches over all epochs, whose number a budget leaves open"
            raise WorkloadError(f"{message}; add `epochs`, or `schedule: constant`", "budget")
        effective = {name: value for name, value in resolved.items() if name not in ineffective}
        options = self.model_options(resolved.get("model") or {})
        return Settings.of({**DEFAULTS, **effective, "model": options}), MISSING

    def model_options(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """The model options set by a grid that differ from the defaults, each of its default's type."""
        options = {}
        for name, value in chosen.items():
            default = self.options.get(name)
            option = Parameter(type(default).__name__, default=default)
            problem = option.problem(value)
            if name not in self.options:
                hint = nearest(name, self.options) if self.options else "the model has no options"
                problem = f"not an option of {self.name}'s model; {hint}"
            if problem:
                raise WorkloadError(problem, f"model.{name}")
            if value != default:
                options[name] = option.converted(value)
        return options

    def data(self, resolved: Mapping[str, Any], digest: str | None, available: Mapping[str, int]) -> CellData:
        requested = resolved.get("examples") or {}
        counts = {split: requested.get(split) or available.get(split) for split in ("train", "val")}
        name = self.dataset or self.name
        for split, count in counts.items():
            most = available.get(split)
            if count and most and count > most:
                raise WorkloadError(f"{count} is not allowed; {name} has {most}", f"examples.{split}")
        train, batch, replicas = counts["train"], resolved["batch_size"], resolved["replicas"]
        parts = resolved["gradient_accumulation"]
        for divisor, noun in ((replicas, "replicas"), (replicas * parts, f"parts (gradient_accumulation {parts})")):
            if batch % divisor:
                message = f"{batch} is not a multiple of the {divisor} {noun}; use one that is"
                raise WorkloadError(message, "batch_size")
        if train and batch > train:
            message = f"{batch} is larger than the training set of {train} examples; use a smaller one"
            raise WorkloadError(message, "batch_size")
        return CellData(name=name, digest=digest, examples=Examples(**counts))

    def misplaced(self, name: str) -> str | None:
        message = f"params are for your own training function; the options of {self.name} are under `model`"
        return message if name.startswith(PARAM) else None


class LoopInfo(WorkloadInfo):
    """A workload whose training loop is the user's: it has only the settings that it uses."""

    def identity(self) -> CellWorkload:
        return CellWorkload(self.name, digest=str(self.digest), form=self.form)

    @classmethod
    def runs_in(cls, engines: tuple[str, ...], loops: tuple[str, ...]) -> tuple[str, ...]:
        return loops

    @property
    def cell_defaults(self) -> dict[str, Any]:
        return {"warmup_epochs": DEFAULTS["warmup_epochs"], "count": 1, "nodes": 1}

    @property
    def needed(self) -> Set[str]:
        """The names of settings and parameters that every cell has to have."""
        return self.arguments

    @abstractmethod
    def used(self, resolved: Mapping[str, Any]) -> dict[str, Any]:
        """The values of those settings and parameters that it uses, as axes are called."""

    def values(self, resolved: Mapping[str, Any], ineffective: Set[str]) -> tuple[Settings, dict[str, Any]]:
        for name in sorted(self.needed - {name.removeprefix(PARAM) for name in resolved} - set(SPECIAL)):
            message = f"a configuration has no value for {name}, which {self.name} uses; set one for all"
            raise WorkloadError(message)
        used = self.used(resolved)
        settings = {name: value for name, value in used.items() if name in TRAINING and value is not None}
        params = {name.removeprefix(PARAM): value for name, value in used.items() if name.startswith(PARAM)}
        return replace(UNKNOWN_SETTINGS, **settings), params

    @property
    def edited(self) -> tuple[str, ...]:
        names = (*self.files,)
        return names if len(names) < MAX_FILE_NAMES else (self.name, f"{len(names) - 1} files that it uses")

    @property
    def settings(self) -> Set[str]:
        """The settings that it receives by their own names."""
        return PASSED & self.arguments

    def misplaced(self, name: str) -> str | None:
        plain = name.removeprefix(PARAM)
        if plain == name:
            return f"not for a {self.noun}: {OF_ENGINES_ONLY[name]}" if name in OF_ENGINES_ONLY else None
        return f"{plain} is a setting of raybench; write it without params" if plain in self.settings else None

    def unused(self, name: str) -> str | None:
        plain = name.removeprefix(PARAM)
        is_used = name in self.applied or plain in with_other_batch_size(self.arguments)
        return None if is_used else self._unknown_name(plain)

    @abstractmethod
    def _unknown_name(self, name: str) -> str | None:
        """The problem of a name that is none of its arguments."""


@dataclass(frozen=True)
class FunctionInfo(LoopInfo):
    """A training function in the user's file, at `function_line`."""

    form, noun, output = FUNCTION, "training function", "trial.output_dir"
    applied = SUPERVISION | BY_LOOP

    function_line: int = 0

    @classmethod
    def shares_batch(cls, spreads: bool, on_host: bool) -> bool:
        return spreads or not on_host

    def tells_devices(self, given: Collection[str]) -> bool:  # it has torchrun's variables if the grid has a count
        return not {"count", "nodes"}.isdisjoint(given)

    @property
    def cell_defaults(self) -> dict[str, Any]:
        given = {key_of(name): parameter.default for name, parameter in self.parameters.items() if parameter.is_plain}
        return super().cell_defaults | given

    @property
    def arguments(self) -> Set[str]:
        return frozenset(self.parameters)

    @property
    def needed(self) -> Set[str]:
        return frozenset(name for name, parameter in self.parameters.items() if parameter.required)

    def used(self, resolved: Mapping[str, Any]) -> dict[str, Any]:
        used = {name: resolved[name] for name in KEPT if resolved.get(name, MISSING) is not MISSING}
        for name, parameter in self.parameters.items():
            key = key_of(name)
            used |= {key: parameter.converted(resolved[key])} if resolved.get(key, MISSING) is not MISSING else {}
        return used | ({"batch_size": resolved["batch_size"]} if "per_device_batch_size" in used else {})

    def keywords(self, cell: Cell) -> dict[str, Any]:
        """The keyword arguments in a cell's trial; those that are defaults are left to the function."""
        batch, keywords = cell.per_device_batch_size, {}
        values = {"framework": cell.framework, "threads": cell.device.threads, "per_device_batch_size": batch}
        for name, parameter in self.parameters.items():
            if name in PASSED:
                value = values[name] if name in values else getattr(cell.settings, name)
            else:
                value = (cell.params or {}).get(name, MISSING)
            if value is not MISSING and not (parameter.is_plain and value == parameter.default):
                keywords[name] = value
        return keywords

    @property
    def place(self) -> str:
        return f"{self.file}:{self.function_line}"

    def unsuitable(self, name: str, value: Any) -> str | None:
        if parameter := self.parameters.get(name.removeprefix(PARAM)):
            return parameter.problem(value)
        wrong = name == "precision" and value not in ARITHMETIC
        return self._no_parameter(name) if wrong else None

    def _unknown_name(self, name: str) -> str | None:
        return None if name == "precision" else self._no_parameter(name)

    def _no_parameter(self, name: str) -> str:
        hint = close(name, self.parameters) or f"it has {', '.join(self.parameters) or 'none'}"
        return f"{self.name} ({self.place}) has no parameter {name[:60]}; {hint}"


@dataclass(frozen=True)
class CommandInfo(LoopInfo):
    """A program of the user, with its arguments."""

    form, noun, output = COMMAND, "command", "{output_dir}"
    counts_work = False
    settings = PASSED

    command: Command = field(default_factory=lambda: Command(()))

    @classmethod
    def shares_batch(cls, spreads: bool, on_host: bool) -> bool:
        return True

    @classmethod
    def spans_nodes(cls, has_ranks: bool) -> bool:
        return True

    @property
    def cell_defaults(self) -> dict[str, Any]:
        has_epochs = self.command.clock != "program" or EPOCH in self.command.metrics
        return super().cell_defaults | ({} if has_epochs else {"warmup_epochs": 0})

    @property
    def applied(self) -> Set[str]:
        return SUPERVISION | (BY_LOOP if self.command.reports else frozenset[str]())

    @property
    def arguments(self) -> Set[str]:
        return self.command.names

    def used(self, resolved: Mapping[str, Any]) -> dict[str, Any]:
        names = with_other_batch_size(self.arguments) | (self.applied & BY_TRIAL)
        return {
            name: value
            for name, value in resolved.items()
            if name in PASSED or name.startswith(PARAM)
            if self.command.takes_all or name.removeprefix(PARAM) in names
        }

    @property
    def unshrunk(self) -> Set[str]:  # type: ignore[override]
        """Settings that the arguments of `smoke` are to make small."""
        return {"batch_size", "count", "examples", "per_device_batch_size"} | (BY_TRIAL - self.applied)

    def without_effect(self, resolved: Mapping[str, Any], on_host: bool) -> str | None:
        count, nodes = resolved["count"], resolved["nodes"]
        if on_host and count > 1 and "count" not in self.arguments:
            return f"count {count} has no effect: write {{count}} in the command, for its number of processes"
        if nodes > 1 and not self.arguments & {*OF_NODES}:
            names = join_words([f"{{{name}}}" for name in OF_NODES])
            return f"nodes {nodes} has no effect: write {names} in the command"
        return None

    @property
    def edited(self) -> tuple[str, ...]:
        return (*super().edited, "the command")

    @property
    def shared_output(self) -> str:
        return "" if "output_dir" in self.arguments else super().shared_output

    def as_version(self, job: str) -> Self:
        return replace(self, name=job)

    @property
    def program(self) -> str:  # type: ignore[override]
        """The program, if it is to be found on the PATH."""
        program = self.command.arguments[0]
        return "" if "/" in program or [*placeholders(program)] else program

    @property
    def first_metric(self) -> str:  # type: ignore[override]
        """The first metric with a pattern, not of training if there is a different one."""
        return next(iter(sorted(self.command.metric_names, key=lambda name: name.startswith("train/"))), "")

    @property
    def guesses_metrics(self) -> bool:  # type: ignore[override]
        """Whether metrics are recognized in its output, as there are no patterns."""
        return not self.command.reports and not self.command.metric_names

    def unknown_metric(self, metric: str) -> str | None:  # its output may have it without a pattern
        metrics = self.command.metric_names
        hint = None if metric in metrics else _near_metric(metric, metrics)
        return f"{self.name} has no metric {metric[:60]!r}; {hint}" if hint else None

    def misplaced(self, name: str) -> str | None:
        plain = name.removeprefix(PARAM)
        if name in BY_LOOP - BY_TRIAL - self.applied:
            return NEEDS_TRIAL
        is_reserved = plain != name and plain in SPECIAL and plain not in self.settings
        return f"{plain} is reserved by raybench; use a different name" if is_reserved else super().misplaced(name)

    def _unknown_name(self, name: str) -> str | None:
        message = f"the command does not use it; write {{{name}}} in it, or {{{ARGS}}} for --{name}=… and all others"
        return None if self.command.takes_all else message


def read_info(value: Mapping[str, Any]) -> WorkloadInfo:
    """Read the result of `WorkloadInfo.to_json`."""
    forms: tuple[Any, ...] = (DeclaredInfo, FunctionInfo, CommandInfo)
    fields = {key: tuple(item) if isinstance(item, list) else item for key, item in value.items() if key != "form"}
    fields["parameters"] = {name: Parameter(**parameter) for name, parameter in value["parameters"].items()}
    fields |= {"command": Command.from_json(value["command"])} if "command" in value else {}
    info: WorkloadInfo = next(form for form in forms if form.form == value["form"])(**fields)
    return info


def _near_metric(metric: str, metrics: Collection[str]) -> str | None:
    return close(metric.replace("test/", "val/"), metrics)
