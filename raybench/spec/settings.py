"""How a model is trained: every setting a grid may fix or vary."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from raybench.spec import augmentation as a
from raybench.spec import optimization as o
from raybench.spec import quantities as q
from raybench.spec import values as v

NULLABLE = "steps_per_epoch"
"""The one setting for which null says something."""


class Strict(BaseModel):
    """Says no to unknown keys, to values of another type and to keys without a value."""

    model_config = ConfigDict(**v.STRICT, frozen=True)

    @field_validator("*", mode="before")
    @classmethod
    def _something(cls, value: Any, info: ValidationInfo) -> Any:
        """`epochs:` with nothing after it is a slip; None in a model means that nothing was said."""
        if value is None and info.field_name != NULLABLE:
            raise v.complaint("nothing is given; give a value or leave the line out")
        return value


class Settings(Strict):
    """How a model is trained. None means that nothing was said; `model_fields_set` tells what was."""

    framework: v.Framework | None = Field(
        default=None, description="The framework that trains the model.", examples=["torch", "torch_xla", "tensorflow"]
    )
    epochs: v.Epochs | None = Field(
        default=None,
        description="How often training goes through the training set; the last epoch is shorter where it is not a "
        "whole number.",
        examples=[10, 9.9],
    )
    batch_size: v.Count | None = Field(
        default=None,
        description="Examples a step, over all replicas together (the global batch).",
        examples=[64, 128, 512],
    )
    learning_rate: v.Positive | None = Field(
        default=None,
        description="How far a step moves the weights, for a loss averaged over the batch; the schedule multiplies it.",
        examples=[0.1, 1e-3],
    )
    weight_decay: v.NotNegative | None = Field(
        default=None,
        description="How strongly weights are pulled to 0: λ for a loss averaged over the batch, whatever the "
        "batch size and the replicas. `decay` says how it is applied.",
        examples=[0.0, 5e-4],
    )
    model: v.ModelOptions | None = Field(
        default=None,
        description="What the workload lets a grid choose of its model, by name.",
        examples=[{"recurrent_dropout": 0.2}],
    )
    optimizer: v.Optimizer | None = Field(
        default=None, description="The rule that turns gradients into steps.", examples=["sgd", "adam", "adamw"]
    )
    momentum: v.Fraction | None = Field(
        default=None, description="For sgd: the share of the last step that is kept.", examples=[0.9]
    )
    nesterov: v.Bool | None = Field(
        default=None, description="For sgd with momentum: Nesterov's form, which looks one step ahead.", examples=[True]
    )
    betas: v.Betas | None = Field(
        default=None, description="For adam and adamw: the decay of the two running averages.", examples=[[0.9, 0.999]]
    )
    eps: v.Positive | None = Field(
        default=None, description="For adam and adamw: what is added to the denominator.", examples=[1e-8]
    )
    decay: Literal["coupled", "decoupled"] | None = Field(
        default=None,
        description="coupled adds λ·w to the gradient before momentum (the default of sgd and adam); decoupled shrinks "
        "the weights beside the step (the default of adamw).",
        examples=["coupled", "decoupled"],
    )
    decay_rule: Literal["mean", "sum_over_replicas"] | None = Field(
        default=None,
        description="mean is λ whatever the replicas; sum_over_replicas adds the decay on each replica and sums, as a "
        "published tutorial did: it acts as replicas × λ.",
        examples=["mean", "sum_over_replicas"],
    )
    parameter_groups: o.ParameterGroups | None = Field(
        default=None,
        description="Parameters that have a learning rate, a weight decay or a time of their own, by their names in "
        "the model.",
        examples=[[{"match": "*.bias", "decay_factor": 0.0}]],
    )
    lookahead: o.Lookahead | None = Field(
        default=None,
        description="Slow weights that follow the trained ones every few steps, and to which these go back; the run "
        "ends with them. false where there are none.",
        examples=[{"every": 5, "decay": 0.5}, False],
    )
    label_smoothing: v.Fraction | None = Field(
        default=None,
        description="The part of each target that is spread over all classes, in the loss that is trained with.",
        examples=[0.1],
    )
    schedule: v.Schedule | None = Field(
        default=None,
        description="How the learning rate changes, step by step: not at all, in straight lines, or exponentially.",
        examples=["constant", {"name": "piecewise_linear", "points": [[0, 0], [5, 1], [24, 0]]}],
    )
    precision: Literal["fp32", "tf32", "bf16", "fp16"] | None = Field(
        default=None, description="The number format of the heavy arithmetic.", examples=["fp32", "bf16"]
    )
    master_weights: v.Bool | None = Field(
        default=None,
        description="Keep weights in fp32 whatever the precision (the default). false: weights and gradients have the "
        "precision too, but for those of batch norms, and the loss is summed, so that small gradients are not lost.",
        examples=[True, False],
    )
    channels_last: v.Bool | None = Field(
        default=None,
        description="Keep pictures with the channel innermost in memory, faster on some devices.",
        examples=[True],
    )
    compile: v.Bool | None = Field(
        default=None,
        description="Let the framework compile the model first; the time it takes is recorded.",
        examples=[True],
    )
    input: Literal["device", "host"] | None = Field(
        default=None,
        description="Where the data set lives: on the device, or streamed from the host's memory batch by batch.",
        examples=["device", "host"],
    )
    augmentation: a.Augmentations | None = Field(
        default=None,
        description="Random changes to training pictures, in order; crop and cutout may be given a size in pixels.",
        examples=[["crop", "flip", {"cutout": 8}]],
    )
    test_time_augmentation: a.Views | None = Field(
        default=None,
        description="Further views of each picture in evaluation, over which the model's outputs are averaged: flip "
        "adds mirrored ones, shift such as are moved.",
        examples=[["flip", {"shift": 1}]],
    )
    evaluation_batch_size: v.Count | None = Field(
        default=None,
        description="Examples a batch during evaluation; it changes memory and time, not the result.",
        examples=[1000],
    )
    steps_per_epoch: v.CountOrNull = Field(
        default=None,
        description="Steps that count as one epoch; null means one pass over the training set.",
        examples=[40, None],
    )
    examples: v.Examples | None = Field(
        default=None,
        description="How many examples of each split are used, where not all are.",
        examples=[{"train": 5000, "val": 1000}],
    )
    steps_per_execution: v.Count | None = Field(
        default=None,
        description="For tensorflow: steps that one call of the compiled training function takes.",
        examples=[1, 50],
    )
    sections: v.Bool | None = Field(
        default=None,
        description="For torch: time data, forward, loss, backward and step of every training step apart. The device "
        "is waited for at each boundary, which makes steps slower: such times are in no ratio.",
        examples=[True],
    )
    replicas: v.Count | None = Field(
        default=None,
        description="Copies of the model that share each batch, such as the cores of a TPU: each has the batch-norm "
        "statistics of its own part.",
        examples=[1, 8],
    )
    replication: v.Replication | None = Field(
        default=None,
        description="How replicas are made: grouped in one computation on one device, on devices of their own, or "
        "spmd, one program that XLA spreads over the devices. By default devices where each has one, else grouped.",
        examples=["grouped", "devices", "spmd"],
    )
    threads: v.Count | None = Field(
        default=None,
        description="Threads the framework computes with on the CPU; by default one for each of `cpus`.",
        examples=[8],
    )
    cpus: v.Count | None = Field(
        default=None, description="CPU cores a trial owns; a CPU trial owns all of its node by default.", examples=[8]
    )
    warmup_epochs: v.Whole | None = Field(
        default=None,
        description="First epochs that steady times leave out: caches and compilers warm up in them.",
        examples=[1],
    )
    timeout: q.Duration | None = Field(
        default=None,
        description="How long a trial may take: seconds, or a text such as 90s, 30m, 1h30m. One that takes longer ends "
        "with status timeout.",
        examples=["30m", 900],
    )
    checkpoint_every: v.Count | None = Field(
        default=None,
        description="Epochs from one checkpoint of a trial to the next: a trial that is tried again goes on from the "
        "last one instead of the beginning. By default none are made.",
        examples=[1, 10],
    )
    memory_limit: q.Size | None = Field(
        default=None,
        description="How much memory each process of a trial on the host's cores may take: bytes, or a text such as "
        "2GiB. One that needs more ends with status oom. Kept on Linux.",
        examples=["2GiB", 1000000000],
    )
