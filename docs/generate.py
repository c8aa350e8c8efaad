"""The parts of the documentation that come from declarations in the code.

A page has each part between the comments `<!-- table: NAME -->` and `<!-- end of table -->`, so that people can read it
without building anything. `python docs/generate.py` updates all pages, and a test compares them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import yaml
from pydantic.fields import FieldInfo

from raybench.analysis.findings.finding import kinds
from raybench.cli import group
from raybench.config import DeviceProfile, GridSpec, Repeats
from raybench.config.command import GridCommand
from raybench.config.error_messages import flow
from raybench.core.options import GridOptions, ReportOptions, options_of
from raybench.core.settings import SETTINGS, Setting
from raybench.devices import KINDS
from raybench.reporting.frames import TABLES as ANSWER_TABLES
from raybench.results.columns import Column
from raybench.results.epoch_table import EPOCHS
from raybench.results.metrics import HIGHER, LOWER
from raybench.results.run_table import TRIALS

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT = Path(__file__).parent.parent
PROJECT_PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
"""Files at the top of the repository that are pages of the site, too."""


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    names = list(heads)
    lines = [f"| {' | '.join(cells)} |" for cells in (names, *rows)]
    return "\n".join((lines[0], "|---" * len(names) + "|", *lines[1:]))


def code(values: Iterable[str]) -> str:
    """Values as code, with commas between."""
    return ", ".join(f"`{value}`" for value in values)


def device_kinds() -> str:
    """The kinds of devices, with the frameworks that run on each."""
    rows = [(f"`{kind.name}`", kind.label, code(kind.adapters), kind.status) for kind in KINDS.values()]
    return table(("`kind:` of a device", "hardware", "frameworks", "status"), rows)


def possible_cautions() -> str:
    """The findings that are no guesses."""
    kinds_of_runs = [kind for kind in kinds().values() if not kind.guess]
    rows = [(f"`{kind.code}`", kind.condition, kind.remedy) for kind in kinds_of_runs]
    return table(("code", "reported if", "remedy"), rows)


def guesses() -> str:
    """The guesses, and how to say each."""
    rows = [(f"`{kind.code}`", kind.condition, kind.remedy) for kind in kinds().values() if kind.guess]
    return table(("code", "in the answer if", "instead"), rows)


def metric_directions() -> str:
    """The words by which the direction of a metric is known."""
    return f"- less is better: {', '.join(sorted(LOWER))}\n- more is better: {', '.join(sorted(HIGHER))}"


def settings() -> str:
    """Every setting of a grid file."""
    return table(("setting", "meaning", "default; example"), map(_setting, SETTINGS.values()))


def _setting(setting: Setting) -> tuple[str, ...]:
    default = "null" if setting.nullable else "–" if setting.default is None else _yaml(setting.default)
    texts = dict.fromkeys([default, *map(_yaml, setting.examples[:1])])
    return f"`{setting.name}`", setting.description, "; ".join(text if text == "–" else f"`{text}`" for text in texts)


def _yaml(value: Any) -> str:
    text = flow(list(value) if isinstance(value, tuple) else value)
    if any(re.search("[{[]", word) for word in _words(value)):  # braces in texts need quotes, which `flow` has not
        return yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=1000).strip().removesuffix("\n...")
    return text


def _words(value: Any) -> Iterable[str]:
    """The texts in a value."""
    if isinstance(value, str):
        yield value
    for part in value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ():
        yield from _words(part)


def grid_keys() -> str:
    """The keys of a grid file that are not settings."""
    return _keys({name: key for name, key in GridSpec.model_fields.items() if name not in SETTINGS})


def device_keys() -> str:
    """The keys of a device in a grid file."""
    return _keys({name: key for name, key in DeviceProfile.model_fields.items() if name not in SETTINGS})


def repeats_keys() -> str:
    """The keys of repeats until it is certain."""
    return _keys(Repeats.model_fields)


def command_keys() -> str:
    """The keys of a command in a grid file."""
    return _keys(GridCommand.model_fields)


def _keys(fields: Mapping[str, FieldInfo]) -> str:
    rows = [
        (f"`{name}`", f"{key.description} Example: {code(map(_yaml, (key.examples or [])[:1]))}")
        for name, key in fields.items()
    ]
    return table(("key", "meaning"), rows)


def trial_columns() -> str:
    """The columns of the table of trials; the settings in one row, because the page of grid files describes them."""
    settings = [column for column in TRIALS if column.leaf.startswith("settings.")]
    names = f"{settings[0].name}` … `{settings[-1].name}"
    row = Column("", "", "the [settings](grid_files.md#settings) of the run", "", name=names)
    first = TRIALS.index(settings[0])
    return _columns([*TRIALS[:first], row, *(column for column in TRIALS[first:] if column not in settings)])


def epoch_columns() -> str:
    """The columns of the table of epochs, with a sentence for those that trials have, too."""
    of_trials = {column.name for column in TRIALS}
    shared = code(column.name for column in EPOCHS if column.name in of_trials)
    own = _columns(column for column in EPOCHS if column.name not in of_trials)
    return f"As for trials, but of this epoch: {shared}.\n\n{own}"


def comparison_columns() -> str:
    """The columns of the table of configurations."""
    return _columns(ANSWER_TABLES["comparison"])


def effect_columns() -> str:
    """The columns of the table of effects."""
    return _further_columns("effects")


def best_columns() -> str:
    """The columns of the table of the best configurations."""
    return _further_columns("best")


def _further_columns(name: str) -> str:
    """The columns of a table, with a sentence for those that the comparison has, too."""
    known = {(column.name, column.meaning) for column in ANSWER_TABLES["comparison"]}
    shared = [column.name for column in ANSWER_TABLES[name] if (column.name, column.meaning) in known]
    names = code(each for each in shared if not each.endswith(("low", "high")))
    further = _columns(column for column in ANSWER_TABLES[name] if column.name not in shared)
    return f"As in the comparison: {names}.\n\n{further}"


def _columns(columns: Iterable[Any]) -> str:
    shown = (column for column in columns if not column.name.endswith(("low", "high")))  # the page explains these
    return table(("column", "meaning (unit)"), ((f"`{column.name}`", _meaning(column)) for column in shown))


def _meaning(column: Any) -> str:
    """The meaning of a column, with its unit unless it names that."""
    is_named = not column.unit or column.unit in re.split("[ ,;]+", column.meaning)
    meaning = column.meaning.removesuffix(", over all its epochs")  # as the page says of all
    return meaning if is_named else f"{meaning} ({column.unit})"


def grid_options() -> str:
    """The options of a grid's run, in Python and in commands."""
    return options(options_of(GridOptions))


def report_options() -> str:
    """The options of a report that a grid's run does not have."""
    of_grids = options_of(GridOptions)
    return options({name: one for name, one in options_of(ReportOptions).items() if name not in of_grids})


def options(declared: Mapping[str, Any]) -> str:
    """The options of a command, and those of Python alone."""
    rows = []
    for name, one in declared.items():
        names = [f"{one.flag} {one.metavar}".rstrip()] if one.in_commands else []
        names += [] if one.in_commands and one.flag == f"--{name.replace('_', '-')}" else [f"{name}="]
        rows.append((code(names), one.python_help))
    return table(("option", "meaning"), rows)


def shipped_grids() -> str:
    """The shipped grids with their descriptions."""
    grids = [(path.name, yaml.safe_load(path.read_text())) for path in sorted((ROOT / "grids").glob("*.yaml"))]
    return table(("grid", "content"), ((f"`{name}`", grid.get("description", "")) for name, grid in grids))


def three_claims() -> str:
    """Claims of 2026 with the last sentence of the verdict on each, from docs/claims.md."""
    names = ("nanochat, run 4", "modded-nanogpt, record 81", "parameter-golf: wider clipping")
    sections = (ROOT / "docs" / "claims.md").read_text().split("\n## ")[1:]
    chosen = (next(text for text in sections if text.startswith(name)).split("\n\n") for name in names)
    rows = []
    for title, claim, *parts in chosen:
        verdicts = [part.removeprefix("> ") for part in parts if part.startswith("> ") and "Rule:" not in part]
        verdict = next((each for each in verdicts if each.startswith(("Faster", "Undecided"))), verdicts[-1])
        rows.append((f"{title}. {claim.removeprefix('Claim: ')}", verdict))
    return table(("claim", "`raybench report` on its logs"), rows)


TABLES: Mapping[str, Callable[[], str]] = {
    "three claims": three_claims,
    "device kinds": device_kinds,
    "command keys": command_keys,
    "device keys": device_keys,
    "grid keys": grid_keys,
    "repeats keys": repeats_keys,
    "settings": settings,
    "shipped grids": shipped_grids,
    "grid options": grid_options,
    "report options": report_options,
    "possible cautions": possible_cautions,
    "guesses": guesses,
    "metric directions": metric_directions,
    "trial columns": trial_columns,
    "epoch columns": epoch_columns,
    "comparison columns": comparison_columns,
    "effect columns": effect_columns,
    "best columns": best_columns,
}
"""The generator of each part, by its name in the comment `<!-- table: NAME -->`."""


def pages() -> list[Path]:
    """The pages that may have generated parts."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def with_tables(page: str) -> str:
    """A page with its generated parts up to date.

    Raises:
        KeyError: there is no such part.
        ValueError: a part has no closing comment.
    """
    texts = re.split(r"(<!-- table: .* -->\n)", page)
    for number in range(1, len(texts), 2):
        name = texts[number].removeprefix("<!-- table: ").removesuffix(" -->\n")
        _, closing, after = texts[number + 1].partition("<!-- end of table -->")
        if not closing:
            raise ValueError(f"the table {name!r} has no end")
        texts[number + 1] = f"\n{TABLES[name]()}\n\n{closing}{after}"
    return "".join(texts)


def on_pre_build(**_: Any) -> None:
    """MkDocs: let mkdocs-click show the examples and preformatted lines of the commands' help."""
    _as_markdown(group)


def _as_markdown(command: click.Command) -> None:
    text = re.sub(
        r"\n\x08\n(.*?)(?=\n\n|$)", r"\n```text\n\1\n```", inspect.cleandoc(command.help or ""), flags=re.DOTALL
    )
    examples = inspect.cleandoc((command.epilog or "").replace("\b", ""))
    command.help = f"{text}\n\n```text\n{examples}\n```" if examples else text
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            if subcommand := command.get_command(context, name):
                _as_markdown(subcommand)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """MkDocs: add the pages from the top of the repository."""
    from mkdocs.structure.files import File

    for name in PROJECT_PAGES:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """MkDocs: adapt links that leave docs/."""
    text = re.sub("<!-- (?:table: .*|end of table) -->", "", markdown)
    if page.file.src_uri in PROJECT_PAGES:
        return text.replace("](docs/", "](")
    # In the repository these pages are a folder above docs/, on the site beside the pages of docs/.
    return re.sub(rf"\]\(\.\./((?:\.\./)*(?:{'|'.join(map(re.escape, PROJECT_PAGES))}))", r"](\1", text)


if __name__ == "__main__":
    for path in pages():
        path.write_text(with_tables(path.read_text()))
