"""The settings of a training run, each declared once with its metadata.

`Settings` defines how a model is trained: it is part of a cell's identity, and engines read it. `RunOptions` defines
the framework, the share of a device and the supervision of a trial. The fields of both are the settings of a grid file;
the schema, the messages, the identity, the comparison, the checks, the estimates and the columns of tables are derived
from their metadata (`Setting`). No Pydantic here, since a trial's process has only NumPy and a framework.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING as DATACLASS_MISSING
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from functools import cache, cached_property
from types import NoneType, UnionType
from typing import Any, Literal, Self, Union, get_args, get_origin, get_type_hints

SPEED, LEARNING, DECAY_FORM = "speed", "learning", "form of weight decay"
"""Effects of a setting: on the seconds per example; on the quality and the epochs to reach it; on the form of weight
decay, which a check tests, but not its amount."""

ADAM = ("adam", "adamw")
SGD = ("sgd",)

LEARNING_RATES = {"sgd": 0.1, "adam": 1e-3, "adamw": 1e-3}
DECAYS = {"sgd": "coupled", "adam": "coupled", "adamw": "decoupled"}
AUGMENTATION_SIZES = {"crop": 4, "cutout": 8}


class Missing(Enum):
    """The value of a setting that a source of results omits; it is false, and equal to nothing else."""

    MISSING = "missing"

    def __bool__(self) -> bool:
        return False


MISSING: Any = Missing.MISSING


@dataclass(frozen=True)
class Setting:
    """The declaration of one setting.

    Attributes:
        default: if neither the grid, nor the device's profile, nor the workload sets it; None if it depends on others.
            It never changes, because the identity of a cell leaves it out.
        examples: of values in a grid file; by default its names, or its default.
        affects: which of `SPEED`, `LEARNING` and `DECAY_FORM` it changes.
        optimizers: the optimizers that have this setting; empty if every run has it.
        nullable: whether null is a value in a grid file.
        label: its name in sentences.
        unit: of its number.
        canonical: converts a grid file's value to the canonical form for the digest.
        gt, ge, lt: bounds of its number.
    """

    name: str
    type: Any
    default: Any
    description: str
    examples: tuple[Any, ...] = ()
    affects: tuple[str, ...] = ()
    optimizers: tuple[str, ...] = ()
    nullable: bool = False
    label: str = ""
    unit: str = ""
    canonical: Callable[[Any], Any] | None = None
    gt: float | None = None
    ge: float | None = None
    lt: float | None = None

    @cached_property
    def types(self) -> tuple[Any, ...]:
        """The types that a value may have, except null."""
        if get_origin(self.type) not in (UnionType, Union):
            return (self.type,)
        return tuple(kind for kind in get_args(self.type) if kind is not NoneType)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The texts that its value may be; empty if it is not a name of a fixed set."""
        return tuple(name for kind in self.types if get_origin(kind) is Literal for name in get_args(kind))

    @cached_property
    def path(self) -> tuple[str, ...]:
        """Path in the JSON of a cell's settings."""
        if self.name == "optimizer":
            return "optimizer", "name"
        return ("optimizer", self.name) if self.optimizers else (self.name,)

    def canonical_value(self, value: Any) -> Any:
        """A grid file's value in the canonical form for the digest."""
        if self.canonical is not None:
            return self.canonical(value)
        return float(value) if self.types == (float,) and value is not None else value

    def applies_to(self, optimizer: str) -> bool:
        """Return whether runs with an optimizer have this setting; with an unknown one, they may."""
        return not (optimizer and self.optimizers) or optimizer in self.optimizers


def setting(default: Any, description: str, **attributes: Any) -> Any:
    """Declare a setting as the field of a dataclass; the attributes are those of `Setting`."""
    metadata = {"description": description, **attributes}
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


def _augmentations(items: Collection[Any]) -> tuple[Any, ...]:
    sizes = AUGMENTATION_SIZES
    return tuple({item: sizes[item]} if isinstance(item, str) and item in sizes else item for item in items)


def _schedule(value: Any) -> Any:
    if isinstance(value, str):
        return value
    if value["name"] == "piecewise_linear":
        points = [[float(epoch), float(factor)] for epoch, factor in value["points"]]
        return {"name": value["name"], "points": points, "stretch": value.get("stretch", False)}
    floor = float(value.get("floor", 0.0))
    if value["name"] == "cosine":
        return {"name": value["name"], "warmup_ratio": float(value.get("warmup_ratio", 0.0)), "floor": floor}
    return {"name": value["name"], "decay_steps": float(value["decay_steps"]), "floor": floor}


@dataclass(frozen=True)
class Settings:
    """The training settings of a cell; a value that a source of results omits is `MISSING`."""

    epochs: int | float = setting(
        10,
        "Number of passes over the training set; if it is not a whole number, the last epoch is shorter.",
        examples=[10, 9.9],
        unit="epochs",
        gt=0,
    )
    batch_size: int = setting(
        128,
        "Examples per step, over all devices together (the global batch).",
        examples=[64, 128, 512],
        affects=(SPEED, LEARNING),
        label="batch",
        unit="examples",
        ge=1,
    )
    learning_rate: float = setting(
        None,
        "The learning rate, for a loss averaged over the batch; the schedule multiplies it.",
        examples=[0.1, 1e-3],
        affects=(LEARNING,),
        label="lr",
        optimizers=(*SGD, *ADAM),
        gt=0,
    )
    weight_decay: float = setting(
        0.0,
        "The weight decay λ of every trained tensor, for a loss averaged over the batch, independent of batch size "
        "and replicas. `decay` selects how it is applied.",
        examples=[0.0, 5e-4],
        affects=(LEARNING,),
        label="decay",
        ge=0,
    )
    model: Mapping[str, bool | int | float | str] = setting(
        {},
        "Options of the workload's model, by name.",
        examples=[{"recurrent_dropout": 0.2}],
        affects=(SPEED, LEARNING),
    )
    optimizer: Literal["sgd", "adam", "adamw"] = setting(
        "sgd", "The optimizer that updates the weights.", affects=(SPEED, LEARNING, DECAY_FORM)
    )
    momentum: float = setting(0.9, "For sgd: the momentum.", affects=(LEARNING, DECAY_FORM), optimizers=SGD, ge=0, lt=1)
    nesterov: bool = setting(
        True,
        "For sgd with momentum: use Nesterov momentum.",
        examples=[True],
        affects=(LEARNING, DECAY_FORM),
        optimizers=SGD,
    )
    betas: tuple[float, ...] = setting(
        (0.9, 0.999),
        "For adam and adamw: the decay rates of the two running averages.",
        affects=(LEARNING, DECAY_FORM),
        optimizers=ADAM,
        canonical=lambda values: tuple(map(float, values)),
    )
    eps: float = setting(
        1e-8,
        "For adam and adamw: the term added to the denominator.",
        affects=(LEARNING, DECAY_FORM),
        optimizers=ADAM,
        gt=0,
    )
    decay: Literal["coupled", "decoupled"] = setting(
        None,
        "coupled adds λ·w to the gradient before momentum (the default of sgd and adam); decoupled shrinks the "
        "weights separately from the step (the default of adamw).",
        affects=(LEARNING, DECAY_FORM),
    )
    decay_rule: Literal["mean", "sum_over_replicas"] = setting(
        "mean",
        "mean applies λ for any number of replicas; sum_over_replicas adds the decay on each replica and sums, as "
        "in a published tutorial: it acts as replicas × λ.",
        affects=(LEARNING, DECAY_FORM),
    )
    label_smoothing: float = setting(
        0.0,
        "The fraction of each target that is spread over all classes in the training loss.",
        examples=[0.1],
        affects=(LEARNING,),
        ge=0,
        lt=1,
    )
    schedule: str | Mapping[str, Any] = setting(
        "constant",
        "How the learning rate changes per step: constant, piecewise linear, exponential, or cosine with warm-up.",
        examples=[
            "constant",
            {"name": "piecewise_linear", "points": [[0, 0], [5, 1], [24, 0]], "stretch": True},
            {"name": "exponential", "decay_steps": 2000, "floor": 0.01},
            {"name": "cosine", "warmup_ratio": 0.05, "floor": 0.1},
        ],
        affects=(LEARNING,),
        canonical=_schedule,
    )
    gradient_clipping: float | None = setting(
        None,
        "The largest L2 norm of the gradients of all parameters together: larger ones are scaled down to it before "
        "the optimizer's step. null: no clipping.",
        examples=[1.0, None],
        affects=(SPEED, LEARNING),
        nullable=True,
        gt=0,
    )
    gradient_accumulation: int = setting(
        1,
        "Parts of a batch that are computed in turn, in less memory; their gradients are added up for one "
        "step of the optimizer. Only batch norm computes something different.",
        examples=[1, 4],
        affects=(SPEED, LEARNING),
        unit="parts",
        ge=1,
    )
    precision: Literal["fp32", "tf32", "bf16", "fp16"] = setting(
        "fp32", "The number format of matrix products and convolutions.", affects=(SPEED, LEARNING, DECAY_FORM)
    )
    channels_last: bool = setting(
        False,
        "Keep images with the channel as the innermost dimension in memory, which is faster on some devices.",
        examples=[True],
        affects=(SPEED,),
    )
    compile: bool | Literal["default", "reduce-overhead", "max-autotune"] = setting(
        False,
        "Compile the model with the framework's compiler; its time is recorded. default (or true) is the compiler's "
        "own choice. For torch also reduce-overhead, which replays CUDA graphs on a GPU, and max-autotune, which also "
        "measures alternatives of each kernel. torch_xla always compiles.",
        examples=[False, "default", "reduce-overhead", "max-autotune"],
        affects=(SPEED,),
        canonical=lambda value: "default" if value is True else value,
    )
    input: Literal["device", "host"] = setting(
        "device",
        "Where the data set is: in the device's memory, or in the host's memory, streamed batch by batch.",
        affects=(SPEED,),
    )
    augmentation: tuple[Any, ...] = setting(
        (),
        "Random changes of training images, in order; crop and cutout may have a size in pixels.",
        examples=[["crop", "flip", "cutout"], [{"crop": 4}, "flip", {"cutout": 8}]],
        affects=(SPEED, LEARNING),
        canonical=_augmentations,
    )
    evaluation_batch_size: int | None = setting(
        None,
        "Examples per batch during evaluation: changes memory and time, not the result; by default as many as a device "
        "trains on at a time.",
        examples=[1000],
        affects=(SPEED,),
        unit="examples",
        ge=1,
    )
    steps_per_epoch: int | None = setting(
        None,
        "Steps that count as one epoch; null means one pass over the training set.",
        examples=[40, None],
        affects=(LEARNING,),
        nullable=True,
        unit="steps",
        ge=1,
    )

    def __post_init__(self) -> None:
        """Fill in the defaults that depend on the optimizer."""
        for name, by_optimizer in (("learning_rate", LEARNING_RATES), ("decay", DECAYS)):
            if getattr(self, name) is None:
                object.__setattr__(self, name, by_optimizer.get(self.optimizer, MISSING))

    @classmethod
    def of(cls, resolved: Mapping[str, Any]) -> Self:
        """Select the settings among a grid's values, in canonical form: those of other optimizers at their defaults."""
        values = {
            setting.name: setting.canonical_value(resolved[setting.name])
            for setting in TRAINING.values()
            if resolved.get(setting.name) is not None and setting.applies_to(resolved.get("optimizer", "sgd"))
        }
        settings = cls(**values)
        object.__setattr__(settings, "nesterov", settings.nesterov and settings.momentum > 0)
        return settings

    def only(self, names: Collection[str]) -> Self:
        """Keep only the settings of these names; the others are `MISSING`."""
        return type(self)(**{name: getattr(self, name) if name in names else MISSING for name in TRAINING})

    def changed(self) -> Self:
        """Keep only the settings that differ from their defaults, those of the optimizer included."""
        defaults = type(self)(optimizer=self.optimizer)
        return self.only([name for name in TRAINING if getattr(self, name) != getattr(defaults, name)])

    @property
    def optimizer_settings(self) -> dict[str, Any]:
        """The optimizer's `name` and its own settings, as plain values."""
        names = [one.name for one in TRAINING.values() if one.optimizers and one.applies_to(self.optimizer)]
        return _given({"name": self.optimizer} | {name: getattr(self, name) for name in names})

    def to_json(self) -> dict[str, Any]:
        """The settings as in the JSON of a cell, in which those of the optimizer are in a map."""
        shared = {one.name: getattr(self, one.name) for one in TRAINING.values() if len(one.path) == 1}
        return _given({"optimizer": self.optimizer_settings or MISSING, **shared})

    @classmethod
    def from_json(cls, tree: Mapping[str, Any], is_complete: bool = False) -> Self:
        """Read the settings from the JSON of a cell; one that is not there, or has a wrong type, is `MISSING`.

        Args:
            is_complete: whether raybench planned the cell: a setting that is not there was added later, and has its
                default.
        """
        optimizer = tree.get("optimizer")
        nested: Mapping[str, Any] = optimizer if isinstance(optimizer, Mapping) else {}
        name = nested.get("name")
        values: dict[str, Any] = {}
        for setting in TRAINING.values():
            if not setting.applies_to(name if isinstance(name, str) else ""):
                continue
            source = tree if len(setting.path) == 1 else nested
            if is_complete and setting.path[-1] not in source:
                continue
            value = source.get(setting.path[-1], MISSING)
            plain = tuple(value) if isinstance(value, list) else value
            values[setting.name] = plain if is_of_type(value, setting.type) else MISSING
        return cls(**values)


@dataclass(frozen=True)
class RunOptions:
    """Framework, share of a device and supervision of a trial."""

    framework: Literal["torch", "torch_xla", "torch_tpu", "tensorflow", "jax", "none"] | None = setting(
        None,
        "The framework that trains the model; jax and none only for your own training function, by default what its "
        "file imports.",
        examples=["torch", "torch_xla", "tensorflow"],
        affects=(SPEED, LEARNING, DECAY_FORM),
    )
    environment: str | None = setting(
        None,
        "The Python environment of a trial: a built environment (`raybench env`), or the path of a Python or of a "
        "virtual environment; by default the Python that raybench runs in. The names and versions of all that is "
        "installed there are part of the configuration.",
        examples=["xla", "~/venvs/torch29"],
        affects=(SPEED,),
    )
    examples: Mapping[str, int] | None = setting(
        None,
        "Number of examples used of each split, if not all.",
        examples=[{"train": 5000, "val": 1000}],
        affects=(LEARNING,),
    )
    count: int = setting(
        1,
        "Devices of a trial on each of its nodes: accelerators or, on a CPU, processes that share its cores. Each "
        "batch is divided among all of them.",
        examples=[1, 2],
        affects=(SPEED,),
        ge=1,
    )
    nodes: int = setting(
        1,
        "Nodes of a Ray cluster that a trial takes, all with the same model of device.",
        examples=[1, 2],
        affects=(SPEED,),
        ge=1,
    )
    per_device_batch_size: int | None = setting(
        None,
        "Examples per step on each device, in place of `batch_size`, which then grows with `count`.",
        examples=[64],
        affects=(SPEED, LEARNING),
        unit="examples",
        ge=1,
    )
    replicas: int | None = setting(
        None,
        "Parts of each batch with separate batch-norm statistics: by default one per device; a multiple divides the "
        "batch further.",
        examples=[1, 8],
        affects=(SPEED, LEARNING, DECAY_FORM),
        ge=1,
    )
    threads: int | None = setting(
        None,
        "CPU threads of the framework; by default one for each of `cpus`.",
        examples=[8],
        affects=(SPEED,),
        unit="threads",
        ge=1,
    )
    cpus: int | None = setting(
        None,
        "CPU cores of a trial; by default, a CPU trial has all cores of its node.",
        examples=[8],
        affects=(SPEED,),
        ge=1,
    )
    warmup_epochs: int = setting(
        1,
        "First epochs that steady times leave out, because caches and compilers warm up in them.",
        examples=[1],
        unit="epochs",
        ge=0,
    )
    timeout: float | None = setting(
        None,
        "Time limit of a trial: seconds, or a text such as 90s, 30m, 1h30m. A trial that takes longer ends with "
        "status timeout.",
        examples=["30m", 900],
        unit="s",
        gt=0,
    )
    checkpoint_every: int | None = setting(
        None,
        "Epochs between two checkpoints of a trial: a trial that is tried again continues from the last one. By "
        "default there are none.",
        examples=[1, 10],
        unit="epochs",
        ge=1,
    )
    power_limit: int | None = setting(
        None,
        "Power limit of each NVIDIA GPU of a trial, restored afterwards; it usually needs an administrator.",
        examples=[250],
        affects=(SPEED,),
        unit="W",
        ge=1,
    )
    memory_limit: int | None = setting(
        None,
        "Memory limit of all processes of a CPU trial together: bytes, or a text such as 2GiB. A trial that needs more "
        "ends with status oom. Linux only; also in a device's profile.",
        examples=["2GiB", 1000000000],
        unit="bytes",
        ge=1,
    )


def _declared(cls: type) -> dict[str, Setting]:
    types = get_type_hints(cls)
    settings = {}
    for entry in fields(cls):
        attributes = {"label": entry.name.replace("_", " "), **entry.metadata}
        default = {} if entry.default is DATACLASS_MISSING else entry.default
        one = Setting(entry.name, types[entry.name], default, **attributes)
        example = list(default) if isinstance(default, tuple) else default  # as in a grid file
        settings[entry.name] = replace(one, examples=one.examples or one.names or (example,))
    return settings


TRAINING: Mapping[str, Setting] = _declared(Settings)  # the settings of `Settings`, by name
SETTINGS: Mapping[str, Setting] = {**TRAINING, **_declared(RunOptions)}  # every setting of a grid file, by name

DEFAULTS: Mapping[str, Any] = {
    name: one.default for name, one in SETTINGS.items() if one.default is not None or one.nullable
}
"""Defaults if neither the grid, the device's profile nor the workload sets a value."""


PARAM = "params."  # prefix of an axis that is a parameter of the user's own training function


def short_name(name: str) -> str:
    """The name of an axis in tables: that of a user's own parameter has no prefix."""
    return name.removeprefix(PARAM)


def is_of_type(value: Any, declared: Any) -> bool:
    """Return whether a value from JSON has the type of a field; a text may also describe a list or a map."""
    return isinstance(value, _accepted(declared)) and (not isinstance(value, bool) or bool in _accepted(declared))


@cache
def _accepted(declared: Any) -> tuple[type, ...]:
    if get_origin(declared) in (UnionType, Union):
        return tuple(kind for option in get_args(declared) for kind in _accepted(option))
    kind = get_origin(declared) or declared
    if kind in (None, NoneType, bool, int):
        return (kind or NoneType,)
    if kind is float:
        return (int, float)
    if kind is tuple:
        return (list, tuple, str)
    return (str,) if kind in (Literal, str) else (dict, Mapping, str)


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in values.items()
        if value is not MISSING
    }
