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

from raybench.analysis.diagnostics.finding import FindingKind, kinds
from raybench.cli import group
from raybench.config.error_messages import flow
from raybench.config.schema import json_schema
from raybench.core import events
from raybench.core.settings import SETTINGS, Effect, Setting
from raybench.devices import KINDS
from raybench.results.columns import CELLS, COMPARISON, EPOCHS, TRIALS, Column
from raybench.results.epoch import EPOCH_FIELDS

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
    """The findings that can become a caution."""
    return _findings(distorts=True)


def only_notes() -> str:
    """The findings that can only be a note."""
    return _findings(distorts=False)


def _findings(distorts: bool) -> str:
    return "\n\n".join(_finding(kind) for kind in kinds().values() if kind.distorts == distorts)


def _finding(kind: FindingKind) -> str:
    lines = {"Reported if": kind.condition, "Its time may be too long by": kind.bias, "Remedy": kind.remedy}
    return f"### `{kind.code}`\n\n" + "\n".join(f"- {head}: {text}." for head, text in lines.items() if text)


def settings() -> str:
    """Every setting of a grid file, with a heading for each."""
    return "\n\n".join(map(_setting, SETTINGS.values()))


def _setting(setting: Setting) -> str:
    default = "null" if setting.nullable else None if setting.default is None else _yaml(setting.default)
    engines = code(sorted(setting.engines)) if setting.engines else "all"
    ignored = f"; ignored by {code(sorted(setting.ignored_by))}" if setting.ignored_by else ""
    affected = [effect.value.replace("_", " ") for effect in Effect if effect in setting.affects]
    lines = [
        f"Default: `{default}`" if default else "Default: depends on the workload, other settings or the machine",
        f"Examples: {code(map(_yaml, setting.examples))}",
        f"Frameworks: {engines}{ignored}",
        f"Affects: {', '.join(affected) or 'none of these'}",
    ]
    return f"### `{setting.name}`\n\n{setting.description}\n\n" + "\n".join(f"- {line}" for line in lines)


def _yaml(value: Any) -> str:
    text = flow(list(value) if isinstance(value, tuple) else value)
    if any(re.search("[{[]", word) for word in _words(value)):  # braces in texts need quotes, which `flow` has not
        return yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=1000).strip()
    return text


def _words(value: Any) -> Iterable[str]:
    """The texts in a value."""
    if isinstance(value, str):
        yield value
    for part in value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ():
        yield from _words(part)


def grid_keys() -> str:
    """The keys of a grid file that are not settings."""
    return _keys({name: key for name, key in json_schema()["properties"].items() if name not in SETTINGS})


def device_keys() -> str:
    """The keys of a device in a grid file."""
    return _keys(json_schema()["$defs"]["DeviceProfile"]["properties"])


def command_keys() -> str:
    """The keys of a command in a grid file."""
    return _keys(json_schema()["$defs"]["Command"]["properties"])


def _keys(properties: Mapping[str, Mapping[str, Any]]) -> str:
    rows = [
        (f"`{name}`", f"{key['description']} Example: {code(map(_yaml, key['examples'][:1]))}")
        for name, key in properties.items()
    ]
    return table(("key", "meaning"), rows)


def trial_columns() -> str:
    """The columns of the table of trials."""
    return _columns(TRIALS)


def epoch_columns() -> str:
    """The columns of the table of epochs."""
    return _columns(EPOCHS)


def cell_columns() -> str:
    """The columns of the table of cells."""
    return _columns(CELLS)


def comparison_columns() -> str:
    """The columns of a comparison."""
    return _columns(COMPARISON)


def _columns(columns: Iterable[Column]) -> str:
    rows = [(f"`{column.name}`", column.meaning, column.unit or "–") for column in columns]
    return table(("column", "meaning", "unit"), rows)


def journal_events() -> str:
    """The kinds of events, as the functions that make them are documented."""
    makers = [
        maker
        for name, maker in inspect.getmembers(events, inspect.isfunction)
        if not name.startswith("_") and inspect.signature(maker).return_annotation == "Event"
    ]
    makers.sort(key=lambda maker: maker.__code__.co_firstlineno)
    return "\n\n".join(f"### `{maker.__name__}`\n\n{inspect.getdoc(maker)}" for maker in makers)


def epoch_fields() -> str:
    """The measured fields of `epoch_ended`."""
    rows = [(f"`{each.name}`", each.kind.value, each.meaning, each.over_ranks.value) for each in EPOCH_FIELDS]
    return table(("field", "type", "meaning", "of several ranks"), rows)


TABLES: Mapping[str, Callable[[], str]] = {
    "device kinds": device_kinds,
    "command keys": command_keys,
    "device keys": device_keys,
    "grid keys": grid_keys,
    "settings": settings,
    "possible cautions": possible_cautions,
    "only notes": only_notes,
    "trial columns": trial_columns,
    "epoch columns": epoch_columns,
    "cell columns": cell_columns,
    "comparison columns": comparison_columns,
    "journal events": journal_events,
    "epoch fields": epoch_fields,
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
