"""Published results as data: a file for each source, with what it reported, on what, and by which protocol and rule."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, FiniteFloat, ValidationError, model_validator

from raybench.config.yaml_document import Document, read_yaml
from raybench.core.identity import digest, trial_id
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
        if value is not None and (not isinstance(value, types) or (isinstance(value, bool) and bool not in types)):
            raise ValueError(f"{name}: {value!r} is no {allowed_columns[name].dtype}")
    return columns


CellColumns = Annotated[dict[str, Any], AfterValidator(lambda told: _columns(told, _CELL))]
Said = Annotated[dict[str, Any], AfterValidator(lambda told: _columns(told, _SAID))]
Seconds = Annotated[FiniteFloat, Field(gt=0)]
Text = Annotated[str, Field(min_length=1)]


class Strict(BaseModel):
    """A part of a file; what it does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class PublishedRun(Strict):
    """One run, or what is told of several: a row of the table of trials.

    Attributes:
        machine: which of the machines.
        label: what it is called.
        settings: what its cell has beyond the source's settings and the machine's, by the names of columns.
        says: what the source reports of it, by the names of columns; `reported_s` is its time by the source's rule, and
            `runs` how many runs it is of, where the source says so.
        derived: how the numbers in `says` were computed from the source's data; None if the source states them.
        examples: how many examples `reported_s` was for.
        calls: processor seconds and wall seconds of each call of a process, where the source has them.
    """

    machine: Text
    label: str | None = None
    settings: CellColumns = {}
    says: Said = {}
    derived: Text | None = None
    examples: Annotated[int, Field(gt=0)] | None = None
    calls: list[tuple[Seconds, Seconds]] = []


class Claim(Strict):
    """How many times as fast a machine is as another, as the source claims or as its data say.

    Attributes:
        what: what is compared.
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
        """Whether the source claims it, or how it was computed."""
        return origin(self.derived)


def origin(derived: str | None) -> str:
    """What tables say of where a number is from: `claimed`, or `derived: HOW`."""
    return f"derived: {derived}" if derived else "claimed"


class Publication(Strict):
    """One source.

    Attributes:
        source: what it is, in words.
        workload: what was trained, in words.
        protocol: how it was run and timed.
        counts: which seconds it counts.
        rule: raybench's rule that counts the same, of those in `raybench.results.timing`; None where none does. A run
            that was not timed by it says `reported_rule` itself.
        caveats: what to keep in mind.
        like: the workload that a reader would take it for, where the source does not say what it trained.
        settings: what all its cells have in common, by the names of columns.
        machines: what it ran on, by a short name, by the names of columns.
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
        """What no single field can see: names that have to be known.

        Raises:
            ValueError: a machine or a rule is not.
        """
        for name in (*(run.machine for run in self.runs), *(n for c in self.claims for n in (c.machine, c.over))):
            if name not in self.machines:
                raise ValueError(f"{name} is not among the machines; {nearest(name, self.machines)}")
        for rule in (self.rule, *(run.says.get("reported_rule") for run in self.runs)):
            if rule is not None and rule not in RULES:
                raise ValueError(f"rule: {rule} is no rule; {nearest(rule, RULES)}")

    def origin(self, run: PublishedRun) -> str:
        """Whether a run's numbers are the source's own, or how they were computed from its data."""
        return origin(run.derived or (f"{self.counts[:1].lower()}{self.counts[1:]}".rstrip(".") if run.calls else None))

    def records(self, name: str) -> list[Record]:
        """Its rows, repeats of one cell numbered in their order.

        Args:
            name: what it is called: the `grid` of its rows.
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
                _epochs={n: _call(n, *call, columns.get("batch_size")) for n, call in enumerate(run.calls, 1)},
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
    """A call of a single step, as an epoch of one step."""
    return Epoch(number, None, 1, examples or 0, {"train": wall_s}, cpu_s, {}, None, None, {"train": cpu_s})


def published() -> dict[str, Publication]:
    """Every published result that raybench ships, by the name that `load("published:NAME")` takes."""
    names = sorted(file.name.removesuffix(".yaml") for file in SHIPPED.iterdir() if file.name.endswith(".yaml"))
    return {name: load_named(name) for name in names}


def load_named(name: str) -> Publication:
    """A published result that raybench ships, or one in a file of one's own (`….yaml`).

    Raises:
        UsageError: there is none of that name, or it cannot be read as one.
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
    """A published result in a file of one's own, in the form of those that raybench ships.

    Raises:
        UsageError: it cannot be read as one; the message says where and why.
        OSError: it cannot be read at all.
    """
    return parse(path.read_text(encoding="utf-8-sig", errors="replace"), str(path))


def parse(text: str, file: str) -> Publication:
    """A published result from the text of its file.

    Raises:
        UsageError: with every problem, each with its line.
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
