"""What a grid file may say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetPydanticSchema,
    PrivateAttr,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
    model_validator,
    with_config,
)
from typing_extensions import TypedDict

from raybench.spec import values as v

NULLABLE = "steps_per_epoch"


class _Strict(BaseModel):
    model_config = ConfigDict(**v.STRICT, frozen=True)

    @field_validator("*", mode="before")
    @classmethod
    def _something(cls, value: Any, info: ValidationInfo) -> Any:
        """`epochs:` with nothing after it is a slip; None in a model means that nothing was said."""
        if value is None and info.field_name != NULLABLE:
            raise v.complaint("nothing is given; give a value or leave the line out")
        return value


class Settings(_Strict):
    """How a model is trained. None means that nothing was said; `model_fields_set` tells what was."""

    framework: v.Framework | None = Field(
        None, description="The framework that trains the model.", examples=["torch", "torch_xla", "tensorflow"]
    )
    epochs: v.Count | None = Field(
        None, description="How often training goes through the training set.", examples=[10, 24]
    )
    batch_size: v.Count | None = Field(
        None,
        description="Examples a step, over all replicas together (the global batch).",
        examples=[64, 128, 512],
    )
    learning_rate: v.Positive | None = Field(
        None,
        description="How far a step moves the weights, for a loss averaged over the batch; the schedule multiplies it.",
        examples=[0.1, 1e-3],
    )
    weight_decay: v.NotNegative | None = Field(
        None,
        description="How strongly weights are pulled to 0: λ for a loss averaged over the batch, whatever the batch size "
        "and the replicas. `decay` says how it is applied.",
        examples=[0.0, 5e-4],
    )
    optimizer: v.Optimizer | None = Field(
        None, description="The rule that turns gradients into steps.", examples=["sgd", "adam", "adamw"]
    )
    momentum: v.Fraction | None = Field(
        None, description="For sgd: the share of the last step that is kept.", examples=[0.9]
    )
    nesterov: v.Bool | None = Field(
        None, description="For sgd with momentum: Nesterov's form, which looks one step ahead.", examples=[True]
    )
    betas: v.Betas | None = Field(
        None, description="For adam and adamw: the decay of the two running averages.", examples=[[0.9, 0.999]]
    )
    eps: v.Positive | None = Field(
        None, description="For adam and adamw: what is added to the denominator.", examples=[1e-8]
    )
    decay: Literal["coupled", "decoupled"] | None = Field(
        None,
        description="coupled adds λ·w to the gradient before momentum (the default of sgd and adam); decoupled shrinks "
        "the weights beside the step (the default of adamw).",
        examples=["coupled", "decoupled"],
    )
    schedule: v.Schedule | None = Field(
        None,
        description="How the learning rate changes, step by step: constant, straight lines between points, or exponential.",
        examples=["constant", {"name": "piecewise_linear", "points": [[0, 0], [5, 1], [24, 0]]}],
    )
    precision: Literal["fp32", "tf32", "bf16", "fp16"] | None = Field(
        None, description="The number format of the heavy arithmetic.", examples=["fp32", "bf16"]
    )
    channels_last: v.Bool | None = Field(
        None, description="Keep pictures with the channel innermost in memory, faster on some devices.", examples=[True]
    )
    compile: v.Bool | None = Field(
        None, description="Let the framework compile the model first; the time it takes is recorded.", examples=[True]
    )
    input: Literal["device", "host"] | None = Field(
        None,
        description="Where the data set lives: on the device, or streamed from the host's memory batch by batch.",
        examples=["device", "host"],
    )
    augmentation: v.Augmentations | None = Field(
        None,
        description="Random changes to training pictures, in this order: crop, flip, cutout; a size in pixels may be given.",
        examples=[["crop", "flip", {"cutout": 8}]],
    )
    evaluation_batch_size: v.Count | None = Field(
        None, description="Examples a batch during evaluation; it changes memory and time, not the result.", examples=[1000]
    )
    steps_per_epoch: v.CountOrNull = Field(
        None,
        description="Steps that count as one epoch; null means one pass over the training set.",
        examples=[40, None],
    )
    examples: v.Examples | None = Field(
        None,
        description="How many examples of each split are used, where not all are.",
        examples=[{"train": 5000, "val": 1000}],
    )
    replicas: v.Count | None = Field(
        None, description="Copies of the model that share each batch, such as the cores of a TPU.", examples=[1, 8]
    )
    threads: v.Count | None = Field(
        None, description="Threads the framework computes with on the CPU; by default one for each of `cpus`.", examples=[8]
    )
    cpus: v.Count | None = Field(
        None, description="CPU cores a trial owns; a CPU trial owns all of its node by default.", examples=[8]
    )
    warmup_epochs: v.Whole | None = Field(
        None, description="First epochs that steady times leave out: caches and compilers warm up in them.", examples=[1]
    )
    timeout: v.Duration | None = Field(
        None,
        description="How long a trial may take: seconds, or a text such as 90s, 30m, 1h30m. One that takes longer ends "
        "with status timeout.",
        examples=["30m", 900],
    )


class DeviceProfile(_Strict):
    """What a device of the grid is, what it may use and what it costs."""

    kind: v.Kind = Field(description="The kind of device.", examples=["cpu", "cuda", "mps", "tpu", "xla_cpu"])
    accelerator_type: v.Text | None = Field(
        None, description="The one model it must be, as Ray calls it; by default any of its kind.", examples=["T4", "A100"]
    )
    framework: v.Framework | None = Field(
        None, description="The framework used on this device.", examples=["torch", "torch_xla"]
    )
    environment: v.Text | None = Field(
        None, description="The built environment its trials run in (`raybench env list`).", examples=["xla"]
    )
    replicas: v.Count | None = Field(None, description="Copies of the model that share each batch.", examples=[8])
    threads: v.Count | None = Field(
        None, description="Threads the framework computes with on the CPU.", examples=[8]
    )
    cpus: v.Count | None = Field(None, description="CPU cores a trial owns.", examples=[8])
    count: v.Count = Field(1, description="How many accelerators a trial takes.", examples=[1, 4])
    price_per_hour: v.NotNegative | None = Field(
        None, description="What an hour costs, in any one currency for the whole grid.", examples=[0.35]
    )
    memory_gb: v.Positive | None = Field(
        None, description="Memory in GB that a node must have to run its trials.", examples=[16]
    )


class Target(_Strict):
    """The quality to reach, for the time it takes: a metric and one bound."""

    metric: v.Text = Field(description="The metric, as it is logged.", examples=["val/accuracy", "val/loss"])
    at_least: v.Number | None = Field(
        None, description="Reached when the metric is this or more.", examples=[0.94]
    )
    at_most: v.Number | None = Field(None, description="Reached when the metric is this or less.", examples=[0.1])

    @model_validator(mode="after")
    def _one_bound(self) -> Target:
        if (self.at_least is None) == (self.at_most is None):
            raise v.complaint("wanted one bound, at_least or at_most")
        return self


def _setting(name: str) -> Any:
    """The type of one value of a setting, without the None for "not said"."""
    declared = Settings.model_fields[name]
    if name == NULLABLE:
        return v.CountOrNull
    return next(part for part in get_args(declared.annotation) if part is not type(None))


def _map_of(title: str, doc: str, device: Any, convert: Callable[[Any, bool], Any], several: bool = False) -> Any:
    """A map with the settings and `device` as keys, none of them required.

    Args:
        title: the map's name in the JSON Schema.
        doc: its description there.
        device: the type of what `device` holds.
        convert: from a setting's type, and whether one value of it is a list, to the type of what its key holds.
        several: a key holds a list of values.
    """

    def about(description: str | None, examples: list[Any]) -> Any:
        return Field(description=description, examples=[examples] if several else examples)

    fields = {"device": Annotated[device, about("A name from `devices`, or a kind of device.", ["cpu", "cuda"])]}
    for name, declared in Settings.model_fields.items():
        examples = declared.examples or []
        kind = convert(_setting(name), isinstance(examples[0], list))
        fields[name] = Annotated[kind, about(declared.description, examples)]
    made = TypedDict(title, fields, total=False)  # type: ignore[misc]
    made.__doc__ = doc
    return with_config(v.STRICT)(made)


def _as_written(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    """Keeps the order in which the axes were written: it is the order of the cells."""
    valid = handler(value)
    return {name: valid[name] for name in value}


def _plain(kind: Any) -> GetPydanticSchema:
    return GetPydanticSchema(lambda _source, handler: handler(kind))


_Axes = _map_of(
    "Axes",
    "Every setting that varies, with its values: the grid is their product.",
    v.DeviceAxis,
    lambda kind, _: v.axis_of(kind),
    several=True,
)
_Condition = _map_of(
    "Condition",
    "A cell is meant when each axis named here has the value, or one of the values.",
    v.one_or_several(v.Device, False),
    v.one_or_several,
)
_Entry = _map_of("Entry", "One value for each axis or setting named.", v.Device, lambda kind, _: kind)

Axes = Annotated[dict[str, Any], _plain(_Axes), WrapValidator(_as_written)]
Condition = Annotated[dict[str, list[Any]], _plain(_Condition)]
Entry = Annotated[dict[str, Any], _plain(_Entry)]


class Override(_Strict):
    """Settings that hold for some cells only."""

    when: Condition = Field(
        description="Which cells: each axis named has the value, or one of the values.", examples=[{"device": "tpu"}]
    )
    set: Settings = Field(description="What holds for them.", examples=[{"precision": "bf16"}])


class GridSpec(Settings):
    """A grid file: a workload, what is varied, on which devices, and how the results are compared.

    Any setting may stand at the top level and then holds for the whole grid.

    Attributes:
        axes: from an axis's name to its values, in the order of the file; `device` may be "available" instead of a
            list: every kind the machines have.
        exclude: from an axis to the list of the values that are taken out; a point is meant when all match.
        include: further points; axes an entry does not name take all their values.
    """

    name: v.Name = Field(description="What the grid is called; the experiment in MLflow.", examples=["cifar_tpu_vs_gpu"])
    description: v.Text | None = Field(
        None, description="What the grid is for, in a sentence.", examples=["DavidNet by batch size and weight decay."]
    )
    workload: v.Text = Field(
        description="What is trained: a workload of raybench, or your own as file.py:variable, relative to this file.",
        examples=["davidnet", "my_file.py:my_workload"],
    )
    axes: Axes = Field(
        default_factory=dict,
        description="What is varied: any setting, and device, each with its values; the grid is their product.",
        examples=[{"device": ["cpu", "cuda"], "batch_size": [64, 128, 512]}],
    )
    repeats: v.Count = Field(
        1, description="Runs of each cell, each with its own seed; with one there is no interval.", examples=[3]
    )
    seed: v.Seed = Field(0, description="The seed of the first repeat; each further one adds 1.", examples=[0])
    devices: dict[str, DeviceProfile] = Field(
        default_factory=dict,
        description="Names for devices: what each is, what it may use, what it costs.",
        examples=[{"gpu": {"kind": "cuda", "price_per_hour": 0.35}}],
    )
    baseline: Entry = Field(
        default_factory=dict,
        description="What the others are compared with: the cell that differs in these axes alone.",
        examples=[{"device": "cpu"}],
    )
    target: Target | None = Field(
        None,
        description="The quality to reach, for the time it takes.",
        examples=[{"metric": "val/accuracy", "at_least": 0.94}],
    )
    stop_at_target: v.Bool = Field(False, description="End a trial when it reaches the target.", examples=[True])
    include: list[Entry] = Field(
        default_factory=list,
        description="Points added to the grid; axes not named take all their values, settings beside axes hold there.",
        examples=[[{"device": "cpu", "batch_size": 1024}]],
    )
    exclude: list[Condition] = Field(
        default_factory=list,
        description="Points taken out of the grid: those where every axis named has the value, or one of the values.",
        examples=[[{"device": "tpu", "batch_size": [64, 128]}]],
    )
    overrides: list[Override] = Field(
        default_factory=list,
        description="Settings for some cells only, in order; they go before everything else.",
        examples=[[{"when": {"device": "tpu"}, "set": {"precision": "bf16"}}]],
    )
    retries: v.Whole = Field(
        2, description="How often a trial is tried again that the machine broke, not the code.", examples=[2]
    )
    tracking_uri: v.Text | None = Field(
        None,
        description="The MLflow store; by default MLFLOW_TRACKING_URI, then sqlite in the results folder.",
        examples=["http://localhost:5000"],
    )

    _source_text: str | None = PrivateAttr(None)
    _source_path: Path | None = PrivateAttr(None)

    @property
    def source_text(self) -> str | None:
        """The grid file as it was read; None for a grid that came from no file."""
        return self._source_text

    @property
    def source_path(self) -> Path | None:
        """The grid file, as the person named it; None for a grid that came from no file."""
        return self._source_path

    def profile(self, name: str) -> DeviceProfile:
        """The profile of a device of the grid: the declared one, or for a bare kind the implied one.

        Raises:
            LookupError: neither declared nor a kind.
        """
        if name in self.devices:
            return self.devices[name]
        for kind in get_args(v.Kind):
            if name == kind:
                return DeviceProfile(kind=kind)
        raise LookupError(f"unknown device {name!r}")
