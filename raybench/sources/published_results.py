"""Published results as data, one file per source.

A file has the reported numbers, the machines, the protocol and the timing rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, FiniteFloat, ValidationError, model_validator

from raybench.config.yaml_document import Document, read_yaml
from raybench.core.identity import digest, trial_id
from raybench.core.settings import SETTINGS
from raybench.core.status import TrialStatus
from raybench.datasets.paths import user_path
from raybench.errors import FileError, Problem, UsageError, nearest
from raybench.results import timing
from raybench.results.attempt import Attempt
from raybench.results.columns import NUMBER, TEXT, TRIALS, WHOLE, YES_NO
from raybench.results.epoch import Epoch
from raybench.sources.result_tables import LEAVES, Record, cell_of

SHIPPED = files("raybench.sources") / "literature"
PREFIX = "published:"

RULES = timing.RULES | {name: one.rule for name, one in timing.PUBLISHED.items()}
"""Every rule that a source may name."""

_TYPES: Mapping[str, tuple[type, ...]] = {TEXT: (str,), WHOLE: (int,), NUMBER: (int, float), YES_NO: (bool,)}
_CELL = {column.name: column for column in LEAVES.values()}
_SAID = {column.name: column for column in TRIALS if column.name not in _CELL}


def _columns(columns: Mapping[str, Any], allowed_columns: Mapping[str, Any]) -> Mapping[str, Any]:
    for name, value in columns.items():
        if name not in allowed_columns:
            raise ValueError(f"{name} is no column that can stand here; {nearest(name, allowed_columns)}")
        types = _TYPES.get(allowed_columns[name].dtype, ())
        types += (bool,) if name in SETTINGS and bool in SETTINGS[name].types else ()
        if value is not None and (not isinstance(value, types) or (isinstance(value, bool) and bool not in types)):
            raise ValueError(f"{name}: {value!r} is no {allowed_columns[name].dtype}")
    return columns


CellColumns = Annotated[dict[str, Any], AfterValidator(lambda told: _columns(told, _CELL))]
Said = Annotated[dict[str, Any], AfterValidator(lambda told: _columns(told, _SAID))]
Seconds = Annotated[FiniteFloat, Field(gt=0)]
Text = Annotated[str, Field(min_length=1)]


class Strict(BaseModel):
    """A part of a file; unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class PublishedRun(Strict):
    """One run or a summary of several, a row of the trials.

    Attributes:
        machine: one of the source's machines.
        label: its name.
        settings: settings of its cell in addition to the source's and the machine's, by column name.
        says: reported values by column name; `reported_s` is its time by the source's rule, and `runs` the number of
            summarized runs, if reported.
        derived: how the numbers in `says` were computed from the source's data; None if the source states them.
        examples: number of examples of `reported_s`.
        calls: processor seconds and wall seconds of each call of a process, if reported.
    """

    machine: Text
    label: str | None = None
    settings: CellColumns = {}
    says: Said = {}
    derived: Text | None = None
    examples: Annotated[int, Field(gt=0)] | None = None
    calls: list[tuple[Seconds, Seconds]] = []


class Claim(Strict):
    """The speed-up of a machine over another.

    It is stated by the source or derived from its data.

    Attributes:
        what: the compared quantity.
        claimed: the source's own words.
        derived: instead of them, how the ratio was computed from the source's data.
        measure: the column that it follows from, each machine with its fastest cell; None if there is none here.
    """

    machine: Text
    over: Text
    ratio: Seconds
    what: Text
    claimed: Text | None = None
    derived: Text | None = None
    measure: Literal["reported_s", "examples_per_s"] | None = "reported_s"

    @model_validator(mode="after")
    def _one_origin(self) -> Claim:
        if (self.claimed is None) == (self.derived is None):
            raise ValueError("wanted one of claimed (the source's own words) and derived (how it was computed)")
        return self

    @property
    def origin(self) -> str:
        """Origin of the ratio: a claim of the source, or its computation."""
        return origin(self.derived)


def origin(derived: str | None) -> str:
    """Return the origin of a number for tables: `claimed`, or `derived: HOW`."""
    return f"derived: {derived}" if derived else "claimed"


class Publication(Strict):
    """A published source.

    Attributes:
        source: a description of it.
        workload: a description of the workload.
        protocol: how it was run and timed.
        counts: the period that its times count.
        rule: the equivalent rule of raybench, of those in `raybench.results.timing`; None if there is none. A run that
            was not timed by it has its own `reported_rule`.
        caveats: of its numbers.
        like: the workload that a reader would assume, if the source does not name its workload.
        settings: the common settings of all its cells, by column name.
        machines: values of each machine by column name, by its short name.
    """

    source: Text
    workload: Text
    protocol: Text
    counts: Text
    rule: str | None = None
    caveats: list[Text] = []
    like: Text | None = None
    settings: CellColumns = {}
    machines: dict[str, CellColumns]
    runs: list[PublishedRun]
    claims: list[Claim] = []

    def model_post_init(self, context: Any, /) -> None:
        """Check the names of machines and rules, across fields.

        Raises:
            ValueError: a machine or a rule is not known.
        """
        for name in (*(run.machine for run in self.runs), *(n for c in self.claims for n in (c.machine, c.over))):
            if name not in self.machines:
                raise ValueError(f"{name} is not among the machines; {nearest(name, self.machines)}")
        for rule in (self.rule, *(run.says.get("reported_rule") for run in self.runs)):
            if rule is not None and rule not in RULES:
                raise ValueError(f"rule: {rule} is no rule; {nearest(rule, RULES)}")

    def origin(self, run: PublishedRun) -> str:
        """Return whether a run's numbers are the source's own, or their computation."""
        return origin(run.derived or (f"{self.counts[:1].lower()}{self.counts[1:]}".rstrip(".") if run.calls else None))

    def records(self, name: str) -> list[Record]:
        """Return the runs as records; repeats of a cell are numbered in order.

        Args:
            name: the name of the result, which is the `grid` of its rows.
        """
        repeats: dict[str, int] = {}
        records = []
        for run in self.runs:
            columns = {**self.settings, **self.machines[run.machine], **run.settings}
            cell = cell_of(columns)
            cell_id = digest(cell.to_json() | {"machine": run.machine, "label": run.label})
            repeat = repeats[cell_id] = repeats.get(cell_id, -1) + 1
            attempt = Attempt(
                trial_id(cell_id, repeat),
                1,
                cell=cell,
                label=run.label or f"{name} {run.machine} r{repeat}",
                grid=name,
                profile=run.machine,
                status=TrialStatus.COMPLETED,
                epochs=[_call(n, *call, columns.get("batch_size")) for n, call in enumerate(run.calls, 1)],
            )
            records.append(Record(attempt, name, self._known(run, attempt)))
        return records

    def _known(self, run: PublishedRun, attempt: Attempt) -> dict[str, Any]:
        values: dict[str, Any] = {"runs": 1 if run.calls else None, "reported_rule": self.rule} | run.says
        rule = RULES.get(values["reported_rule"])
        if rule and run.calls:
            values.setdefault("reported_s", rule(attempt))
        elif rule and "reported_s" in values:
            values |= {
                f"{name}_s": values["reported_s"] for name, other_rule in timing.RULES.items() if other_rule is rule
            }
        if run.examples and "reported_s" in values:
            values.setdefault("examples_per_s", run.examples / values["reported_s"])
        return values


def _call(number: int, cpu_s: float, wall_s: float, examples: int | None) -> Epoch:
    """Return a call of a single step as an epoch."""
    return Epoch(number, None, 1, examples or 0, {"train": wall_s}, cpu_s, {}, None, None, {"train": cpu_s})


def published() -> dict[str, Publication]:
    """Return all published results that raybench ships, by name.

    The names are those of `load("published:NAME")`.
    """
    names = sorted(file.name.removesuffix(".yaml") for file in SHIPPED.iterdir() if file.name.endswith(".yaml"))
    return {name: load_named(name) for name in names}


def load_named(name: str) -> Publication:
    """Load a published result that raybench ships, or a user's file (`….yaml`).

    Raises:
        UsageError: there is none of that name, or it is invalid.
    """
    own_file = user_path(name)
    if own_file.suffix in (".yaml", ".yml") and own_file.is_file():
        return load_file(own_file)
    file = SHIPPED / f"{name}.yaml"
    if not name.isidentifier() or not file.is_file():
        names = sorted(entry.name.removesuffix(".yaml") for entry in SHIPPED.iterdir() if entry.name.endswith(".yaml"))
        raise UsageError(f"{PREFIX}{name}: no such published result; {nearest(name, names)}")
    return parse(file.read_text(encoding="utf-8"), f"{name}.yaml")


def load_file(path: Path) -> Publication:
    """Load a published result from a user's file in raybench's format.

    Raises:
        UsageError: it is invalid; the message gives the place and the reason.
        OSError: it cannot be read.
    """
    return parse(path.read_text(encoding="utf-8-sig", errors="replace"), str(path))


def parse(text: str, file: str) -> Publication:
    """Parse a published result from the text of its file.

    Raises:
        UsageError: it is invalid; the message lists every problem with its line.
    """
    document: Document = read_yaml(text, file)
    if document.problems:
        raise FileError(document.problems)
    try:
        return Publication.model_validate(document.value)
    except ValidationError as error:
        problems = []
        for detail in error.errors():
            place = document.place(detail["loc"])
            where = ".".join(map(str, detail["loc"]))
            problems.append(Problem(place.file, place.line, place.column, where, detail["msg"]))
        raise FileError(problems) from None
