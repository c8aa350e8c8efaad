"""What a grid file may say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PrivateAttr, Tag, model_validator

from raybench.config import values as v
from raybench.config.axes import Axes, Condition, Entry
from raybench.config.command import Arithmetic, GridWorkload
from raybench.config.prices import PriceList
from raybench.config.setting_types import Settings, Strict
from raybench.config.yaml_document import Document, Place
from raybench.core import job
from raybench.core.repeats import RepeatRule
from raybench.core.settings import PARAM, SETTINGS
from raybench.datasets.paths import user_path
from raybench.devices import KINDS
from raybench.environments import RECIPES, built_names, key_of, python_of
from raybench.errors import UsageError
from raybench.workloads import WorkloadInfo, read_workload

MOST_LOOKS = 10  # most looks at the results for which intervals of repeated looks hold
LEAST_OF_RACE = 3  # fewest repeats of a race: two runs in the same state of a machine say nothing of its noise


def key(description: str, example: Any, default: Any = ...) -> Any:
    """A key of a grid file; without a default, it is required."""
    return Field(default, description=description, examples=[example])


class DeviceProfile(Settings):
    """What a device of the grid is, what it costs, and settings of its cells."""

    kind: v.KindName = key("The kind of device.", "cuda")
    accelerator_type: v.Text | None = key(
        "The required accelerator model, by Ray's name; by default any model of the kind.", "T4", None
    )
    repeats: v.Count | None = key(
        "Maximum number of repeats of its configurations, such as 1 for a slow reference.", 1, None
    )
    price_per_hour: v.NotNegative | None = key(
        "Price per hour of one accelerator or, for a CPU, of its machine, in `currency`.", 0.35, None
    )
    resources: dict[v.Text, v.Positive] | None = key(
        "Custom resources of a Ray cluster that a trial needs, by name: only nodes that have them run it.",
        {"big": 1},
        None,
    )


class Repeats(Strict):
    """Repeats until each comparison of a cell with its reference is certain, or over several machines."""

    until: v.UntilValue | None = key(
        "A configuration needs no more repeats when the 95% interval of its ratio to the reference is at most ± this. "
        "With `verdict`: when one is shown to be faster, or both to be equally fast within 5%. With `best`: when it is "
        "shown to be worse than another.",
        "5%",
        None,
    )
    at_least: v.LeastRepeats = key("Fewest repeats of a configuration; by default 3 with `until: best`.", 4, 4)
    at_most: v.Count = key("Most repeats of a configuration, with `until`.", 10, 10)
    within: v.Percentage = key("With `until: best`: how near the others may be in the end.", "2%", "2%")
    best_by: Literal["time", "price"] = key("With `until: best`: `price` for the cheapest.", "price", "time")
    machines: v.Count | None = key(
        "Number of machines of each model in a Ray cluster, the same for all configurations of it; without `until` and "
        "`at_least`, each runs a configuration once.",
        3,
        None,
    )

    @property
    def least(self) -> int:
        """The fewest repeats of a configuration."""
        asked = self.at_least if self.until or "at_least" in self.model_fields_set else 1
        if self.until == v.BEST and "at_least" not in self.model_fields_set:
            asked = LEAST_OF_RACE
        return max(asked, self.machines or 1)

    @model_validator(mode="after")
    def _range(self) -> Repeats:
        if not self.until and not self.machines:
            raise v.complaint("needs `until`, such as `until: 5%`, or `machines`")
        if not self.until and "at_most" in self.model_fields_set:
            raise v.complaint("at_most needs `until`, such as `until: 5%`; use at_least")
        if self.machines and self.at_most < self.machines:
            raise v.complaint(f"at_most {self.at_most} is less than machines {self.machines}")
        least = self.least
        if self.at_most < least and self.until:
            raise v.complaint(f"at_most {self.at_most} is less than at_least {least}")
        if self.until in (v.VERDICT, v.BEST) and self.at_most > MOST_LOOKS:
            raise v.complaint(f"the intervals of `until: {self.until}` hold for at_most: {MOST_LOOKS} or less")
        if self.until != v.BEST and (alone := {"within", "best_by"} & self.model_fields_set):
            raise v.complaint(f"{min(alone)} needs `until: best`")
        return self


class GridTarget(Strict):
    """The quality to reach, for the time it takes: a metric and one bound."""

    metric: v.Text = key("The metric, by its logged name.", "val/accuracy")
    at_least: float | None = key("Reached when the metric is this or more.", 0.94, None)
    at_most: float | None = key("Reached when the metric is this or less.", 0.1, None)
    of: Literal["run", "mean"] = key(
        "What has to reach it: each run, or the mean of runs of fixed length, by a one-sided test.", "mean", "run"
    )
    level: v.Percentage = key("The level of that test.", "5%", "1%")

    @model_validator(mode="after")
    def _one_bound(self) -> GridTarget:
        if (self.at_least is None) == (self.at_most is None):
            raise v.complaint("needs exactly one of at_least and at_most")
        bound = self.at_most if self.at_least is None else self.at_least
        if self.metric.endswith("loss") and self.at_least is not None:
            raise v.complaint(f"a loss falls in training; use at_most: {self.at_least:g}")
        if self.metric.endswith("/accuracy") and bound is not None and not 0 <= bound <= 100:
            raise v.complaint(f"{bound:g} is not allowed for accuracy; use a fraction from 0 to 1")
        return self

    def plain(self) -> job.Target:
        """The target as plain values."""
        level = _fraction(self.level) if self.of == "mean" else None
        return job.Target(self.metric, self.at_least, self.at_most, level)


class GridBudget(Strict):
    """What each trial may spend on training; it ends completed when that is spent."""

    time: v.Duration | None = key("Seconds of training, or a text such as 90s, 5m, 1h30m.", "5m", None)
    price: v.Positive | None = key("Price of the device during training, in `currency`.", 0.10, None)
    energy: v.Energy | None = key(
        "Energy of the device from the first epoch on, with evaluations: joules, or a text such as 50kJ, 20Wh.",
        "50kJ",
        None,
    )
    tokens: v.Positive | None = key("Tokens that the training counts.", 1000000, None)
    examples: v.Positive | None = key("Training examples.", 50000, None)
    flops: v.Positive | None = key(
        "FLOPs of the model, if `flops_per_token` or `flops_per_example` says what they are.", 1e15, None
    )
    compile: Literal["included", "excluded"] = key(
        "Whether the time of compilation is part of a budget of time or price.", "excluded", "included"
    )

    @model_validator(mode="after")
    def _one_amount(self) -> GridBudget:
        if len(self.amount) != 1:
            raise v.complaint("needs exactly one of time, price, energy, tokens, examples and flops")
        if not (self.time or self.price) and self.compile == "excluded":
            raise v.complaint("compile: excluded is for a budget of time or price; remove it")
        return self

    @property
    def amount(self) -> dict[str, float]:
        """What may be spent, by its name: `{"time": 300}`."""
        return self.model_dump(exclude={"compile"}, exclude_none=True)

    @property
    def is_of_work(self) -> bool:
        """Whether it is of work, and not of time, price or energy."""
        return not {*self.amount} & {"time", "price", "energy"}


class CellSettings(Settings):
    """Settings and parameters of the user's own training function or command."""

    params: v.Params = key(
        "Parameters of your own training function or command that are not settings of raybench, by name; as axes they "
        "are called params.NAME.",
        {"hidden": 128, "activation": "relu"},
        {},
    )


class Override(Strict):
    """Settings that hold for some cells only."""

    when: Condition = key("The configurations: each named axis has the value, or one of the values.", {"device": "tpu"})
    set: CellSettings = key("What holds for them.", {"precision": "bf16"})


def _form_of_repeats(value: Any) -> str | None:
    if isinstance(value, (dict, Repeats)):
        return "<rule>"
    return "<number>" if isinstance(value, (int, float)) else None


def _fraction(percentage: str) -> float:
    return float(percentage[:-1]) / 100


class GridSpec(CellSettings):
    """A grid file: a workload, what is varied, on which devices, and how the results are compared.

    Any setting may stand at the top level and then holds for the whole grid.
    """

    name: v.Name = key("Name of the grid and of its experiment in MLflow.", "my_grid")
    description: v.Text | None = key(
        "Purpose of the grid, in one sentence.", "DavidNet by batch size and weight decay.", None
    )
    workload: GridWorkload = key(
        "What is trained: a workload of raybench, or your own, relative to this file: a training function or a "
        "declared workload, as file.py:name, or a command.",
        "digits_cnn",
    )
    inputs: list[v.Text] = key(
        "Further files of your own function or command; editing one makes new trials. Paths, patterns and folders, "
        "relative to the folder in which it runs. Its script, files that the command names, and imported modules of "
        "yours count automatically.",
        ["vocabulary.txt", "configs/*.json"],
        [],
    )
    isolate: bool = key(
        "Run each trial of your own function or command in a new folder with copies of the files that count (see "
        "`inputs`). Use it for programs that write to fixed names in their folder.",
        True,
        False,
    )
    synthetic_data: bool = key(
        "Train on generated data of the same shape instead of the workload's data set: times are real, accuracies say "
        "nothing about the real data. Needs no download.",
        True,
        False,
    )
    flops_per_token: Arithmetic | None = key(
        "FLOPs of the model per counted token in a training step, forward and backward, for MFU: numbers and names in "
        "braces with + - * / ( ). raybench counts them for declared workloads. Finished trials keep their value: "
        "after a change, add `--rerun`.",
        "6 * {parameters} + 12 * {layers} * {width} * {context}",
        None,
    )
    flops_per_example: Arithmetic | None = key("The same per example.", "3 * 8.2e9", None)
    flops_precision: v.Text | None = key(
        "The number format of the model's matrix products, to whose peak MFU refers: fp32, tf32, bf16, fp16, or a name "
        "in braces; by default `precision`, else fp32.",
        "{dtype}",
        None,
    )
    axes: Axes = key(
        "The axes: device and any setting, each with its values. The grid is their product.",
        {"device": ["cpu", "cuda"], "batch_size": [64, 128, 512]},
        {},
    )
    repeats: Annotated[
        Annotated[v.Count, Tag("<number>")] | Annotated[Repeats, Tag("<rule>")],
        v.alternatives(_form_of_repeats, "a number, such as 3, {until: 5%, at_most: 10} or {machines: 3}"),
    ] = key(
        "Trials of each configuration, each with its own seed: a number, or until it is certain (see below). One trial "
        "gives no interval.",
        3,
        1,
    )
    seed: v.Seed = key("The seed of the first repeat; each further one adds 1.", 0, 0)
    devices: dict[str, DeviceProfile] = key(
        "Named devices, each with its kind, resources and price.", {"gpu": {"kind": "cuda", "price_per_hour": 0.35}}, {}
    )
    currency: v.Text = key("The currency of all prices of the grid.", "EUR", "USD")
    baseline: Entry = key(
        "Each configuration is compared with the one that has these values and otherwise the same settings; without, "
        "the best of each device.",
        {"device": "cpu"},
        {},
    )
    target: GridTarget | None = key(
        "The quality to reach; the report has the time to it. With `of: mean`, the mean of runs of fixed length has to "
        "reach it, by a one-sided test at `level` (1%).",
        {"metric": "val/accuracy", "at_least": 0.94},
        None,
    )
    metric: v.Text | None = key(
        "The metric of quality in tables and figures; by default the target's, else a command's first metric not of "
        "training data, else val/accuracy.",
        "val/loss",
        None,
    )
    lower_is_better: list[v.Text] = key(
        "Metrics of which less is better, if their names do not say it ([guesses](checks.md#guesses)).",
        ["val/gap"],
        [],
    )
    higher_is_better: list[v.Text] = key("The same of which more is better.", ["val/quality"], [])
    max_quality_loss: v.Percentage = key(
        "If the fastest loses more quality (of an accuracy: points), the fastest that does not is named, too.",
        "0.5%",
        "1%",
    )
    unit: v.Text | None = key(
        "The unit of rates and prices, which the trials count; by default one that all of them count, else examples.",
        "tokens",
        None,
    )
    stop_at_target: bool = key("End a trial when it reaches the target.", True, False)
    budget: GridBudget | None = key(
        "What each trial may spend on training: time, price or energy. Without `epochs` it trains until that is spent; "
        "the report compares the quality then.",
        {"time": "5m"},
        None,
    )
    include: list[Annotated[Entry, Field(min_length=1)]] = key(
        "Configurations added to the grid. Axes that are not named take all their values; other settings apply to "
        "these configurations only.",
        [{"device": "cpu", "batch_size": 1024}],
        [],
    )
    exclude: list[Condition] = key(
        "Configurations removed from the grid: those whose named axes all have the value, or one of the values.",
        [{"device": "tpu", "batch_size": [64, 128]}],
        [],
    )
    overrides: list[Override] = key(
        "Settings for some configurations only, in order; they take precedence over all others, but set no axis.",
        [{"when": {"device": "tpu"}, "set": {"precision": "bf16"}}],
        [],
    )
    retries: v.Whole = key("How many times a trial is tried again if its worker or node was lost.", 2, 2)
    tracking_uri: v.Text | None = key(
        "The MLflow store; by default MLFLOW_TRACKING_URI, or else an SQLite file in the results folder.",
        "http://localhost:5000",
        None,
    )

    _source_text: str | None = PrivateAttr(None)
    _source_path: Path | None = PrivateAttr(None)
    _document: Document | None = PrivateAttr(None)
    _prices: PriceList = PrivateAttr(PriceList())
    _where: Sequence[tuple[str, str]] = PrivateAttr(())
    _versions: Mapping[str, GridSpec] = PrivateAttr(default_factory=dict)

    def given(self) -> Iterator[tuple[tuple[str | int, ...], str, Any]]:
        """Yield every setting and parameter that the grid sets: its path, its name on an axis, its value."""
        maps: list[tuple[tuple[str | int, ...], Any]] = [((), self)]
        maps += [(("overrides", at, "set"), rule.set) for at, rule in enumerate(self.overrides)]
        maps += [(("devices", name), profile) for name, profile in self.devices.items()]
        for path, settings in maps:
            for name in sorted(settings.model_fields_set & SETTINGS.keys()):
                yield (*path, name), name, getattr(settings, name)
            for name, value in getattr(settings, "params", {}).items():
                yield (*path, "params", name), f"{PARAM}{name}", value
        for name, values in self.axes.items():
            if name != "device":
                yield from ((("axes", name, index), name, value) for index, value in enumerate(values))
        for index, entry in enumerate(self.include):
            yield from ((("include", index, name), name, value) for name, value in entry.items() if name != "device")

    @property
    def source_text(self) -> str | None:
        """The grid file as it was read."""
        return self._source_text

    @property
    def source_path(self) -> Path | None:
        """The grid file, as the user named it; None for a grid that came from no file."""
        return self._source_path

    def place(self, key: str) -> Place | None:
        """The place of a key; None without a file."""
        if not self._document or not self._source_path:
            return None
        path = next((path for path in self._document.values if path[-1:] == (key,)), ())
        return self._document.place(path, key=True) if path else Place(str(self._source_path))

    def error(self, key: str, message: str) -> UsageError:
        """The error of the value of a key, such as `model.side`, with the place of its first part."""
        place = self.place(key.partition(".")[0])
        parts = [str(place) if place else "", "" if place and place.is_option else key, message]
        return UsageError(": ".join(filter(None, parts)))

    def values(self, included: bool) -> dict[str, list[Any]]:
        """The values of each axis, with those of `include` if `included`; every kind for `device: available`."""
        axes = {"device": ["cpu"], **{name: [*values] for name, values in self.axes.items()}}
        if self.axes.get("device") == "available":
            axes["device"] = list(KINDS)
        for entry in self.include if included else ():
            for name, value in entry.items():
                axes.setdefault(name, []).append(value)
        return axes

    @property
    def rule(self) -> RepeatRule | None:
        """What decides the number of repeats; None if it is fixed."""
        repeats = self.repeats
        if isinstance(repeats, int) or not repeats.until:
            return None
        least = repeats.least
        if repeats.until == v.BEST:
            max_loss = _fraction(self.max_quality_loss) if "max_quality_loss" in self.model_fields_set else None
            is_by_price = repeats.best_by == "price"
            return RepeatRule(least, repeats.at_most, None, _fraction(repeats.within), is_by_price, max_loss)
        return RepeatRule(least, repeats.at_most, None if repeats.until == v.VERDICT else _fraction(repeats.until))

    @property
    def most_repeats(self) -> int:
        """The largest number of repeats of a configuration."""
        return self.rule.at_most if self.rule else self.least_repeats

    @property
    def least_repeats(self) -> int:
        """The fewest repeats of a configuration."""
        return self.repeats if isinstance(self.repeats, int) else self.repeats.least

    @property
    def machines(self) -> int:
        """The number of machines of each model that the grid asks for; 0 if it does not."""
        return 0 if isinstance(self.repeats, int) else self.repeats.machines or 0

    @property
    def prices(self) -> PriceList:
        """Prices that replace those of the grid; none without a file of them."""
        return self._prices

    @property
    def where(self) -> Sequence[tuple[str, str]]:
        """The filter on its cells: axes and values as text; several values of one axis are alternatives."""
        return self._where

    @property
    def price_currency(self) -> str:
        """The currency of all prices."""
        return self._prices.currency or self.currency

    def read_workload(self, base: Path | None = None) -> WorkloadInfo:
        """Look up the workload; a file of the user is imported in a process that is thrown away."""
        if base is None:
            base = self._source_path.parent if self._source_path else Path()
        if isinstance(self.workload, str):
            return read_workload(self.workload, base, self.inputs, self._pythons(), self.isolate)
        given = tuple(sorted({name for _, name, _ in self.given() if name in SETTINGS}))
        return read_workload(replace(self.workload.plain(), given=given), base, self.inputs, isolate=self.isolate)

    def _pythons(self) -> Iterator[Path]:
        """The interpreters of the environments of its trials, then of those that are built."""
        for key in dict.fromkeys([*self.environments, *built_names()]):
            path = python_of(key) if key in RECIPES else user_path(key)
            if path and (python := path / "bin" / "python" if path.is_dir() else path).exists():
                yield python

    @property
    def directions(self) -> dict[str, bool]:
        """Whether more of a metric is better, as far as the grid says it."""
        return dict.fromkeys(self.lower_is_better, False) | dict.fromkeys(self.higher_is_better, True)

    @property
    def versions(self) -> Mapping[str, GridSpec]:
        """The grid in each version that is compared; empty for any other grid."""
        return self._versions

    def environment_key(self, environment: str | None) -> str:
        """The key of an environment that the grid names (`raybench.environments.interpreter`)."""
        return key_of(environment, self._source_path.parent if self._source_path else Path())

    @property
    def environments(self) -> list[str]:
        """The keys of the environments that the grid names in any version, each once."""
        keys = []
        for spec in [*self._versions.values()] or [self]:
            keys += [spec.environment_key(value) for _, name, value in spec.given() if name == "environment"]
        return list(dict.fromkeys(keys))

    def profile(self, name: str) -> DeviceProfile:
        """The profile of a device of the grid: the declared one, or for a bare kind the implied one."""
        if name in self.devices:
            return self.devices[name]
        if name in KINDS:
            return DeviceProfile(kind=name)
        raise LookupError(f"unknown device {name!r}")
