"""The definition of a workload: a model, its data, its recipe."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from raybench import datasets
from raybench.datasets.splits import Data

Function = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Workload:
    """A training job: data, model and default settings.

    The same class describes built-in workloads and those in the user's own files.

    Attributes:
        model: builds the model, fresh and randomly initialized. Either a function without arguments (for a torch
            model), or by framework a function or a "module:function".
        dataset: a built-in data set (`raybench data`).
        data: instead of `dataset`: a function from the data folder (a Path) to `Data`.
        defaults: settings that apply if the grid does not set them, named as in a grid file.
        held_out: number of examples at the end of the training set to validate on; 0: validate on the test set.
        mean: one number per channel of images with values 0 to 255: (image - mean) / std.
        std: as `mean`.
        loss: from the model's outputs and targets to one loss per example, shape [batch]; None: cross-entropy. For
            several frameworks, {framework: function or "module:function"}.
        metrics: from outputs and targets to {name: one number per example}; None: {"accuracy": …}. For several
            frameworks, as `loss`.
        metric_names: the names that `metrics` returns, if not only the accuracy.
        options: model options for a grid's `model:`, with their defaults: the keyword arguments of the model function.
        data_options: names of the options that `prepare` takes too.
        small_model: values of options with which a smoke run ends soon on a CPU.
        prepare: from the data set's data to the model's data; a function or a "module:function".
        unit: what an example's inputs are, if they are counted next to examples, such as "tokens".
        name: its name; in a user's file, the variable's name.
        version: raised when the same settings would give different results.
    """

    model: Callable[..., Any] | Mapping[str, str | Callable[..., Any]]
    dataset: str | None = None
    data: Callable[[Path], Data] | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)
    held_out: int = 0
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    loss: Function | Mapping[str, str | Function] | None = None
    metrics: Function | Mapping[str, str | Function] | None = None
    name: str = ""
    version: int = 1
    unit: str = ""
    metric_names: tuple[str, ...] = ("accuracy",)
    options: Mapping[str, Any] = field(default_factory=dict)
    prepare: str | Callable[..., Data] | None = None
    data_options: tuple[str, ...] = ()
    small_model: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.dataset is None) == (self.data is None):
            raise ValueError("a workload needs either a dataset or a data function, not both")
        if self.dataset is not None:
            datasets.get(self.dataset)
        if not all(isinstance(name, str) for name in self.models):
            raise ValueError('the keys of model must be names of frameworks, such as {"torch": …}')

    @property
    def models(self) -> Mapping[str, str | Callable[..., Any]]:
        """The model function of each framework; a bare function builds a torch model."""
        return self.model if isinstance(self.model, Mapping) else {"torch": self.model}

    @property
    def frameworks(self) -> tuple[str, ...]:
        """The frameworks for which this workload has a model."""
        return tuple(self.models)

    def describe(self) -> dict[str, Any]:
        """What the plan reads of it, as plain values."""
        names = ("name", "dataset", "defaults", "held_out", "options", "small_model")
        # The names of metrics of the user's own are known in a trial only, unless they are declared.
        is_declared = self.metrics is None or self.metric_names != ("accuracy",)
        return {
            **{name: getattr(self, name) for name in names},
            "frameworks": self.frameworks,
            "metric_names": self.metric_names if is_declared else (),
            "own_loss": self.loss is not None,
        }

    def loss_for(self, framework: str) -> Function | None:
        """The loss in a framework's own functions, which is imported; None for cross-entropy."""
        function: Function | None = _function(self.loss.get(framework) if isinstance(self.loss, Mapping) else self.loss)
        return function

    def metrics_for(self, framework: str) -> Function | None:
        """The metrics in a framework's own functions, which is imported; None for accuracy."""
        declared = self.metrics.get(framework) if isinstance(self.metrics, Mapping) else self.metrics
        function: Function | None = _function(declared)
        return function

    def prepare_data(self, data: Data) -> Data:
        """Convert the data set's data to the model's data."""
        prepare = _function(self.prepare)
        return prepare(data) if prepare else data

    def with_options(self, options: Mapping[str, Any]) -> Workload:
        """The workload with these model options; the others have their defaults."""
        if not options:
            return self
        models = {framework: partial(_built, build, dict(options)) for framework, build in self.models.items()}
        of_data = {name: options[name] for name in self.data_options if name in options}
        return replace(
            self, model=models, prepare=partial(_function(self.prepare), **of_data) if of_data else self.prepare
        )

    def build_model(self, framework: str) -> Any:
        """Build a fresh model for a framework; import the framework."""
        return _built(self.models[framework], {})


def in_each(package: str, function: str = "build") -> dict[str, str]:
    """References to a function of a package's modules `torch` and `tensorflow`, by framework."""
    return {framework: f"{package}.{framework}:{function}" for framework in ("torch", "tensorflow")}


def _function(reference: Any) -> Any:
    """Resolve a function or a "module:function" reference."""
    return pkgutil.resolve_name(reference) if isinstance(reference, str) else reference


def _built(build: str | Callable[..., Any], options: Mapping[str, Any]) -> Any:
    return _function(build)(**options)
