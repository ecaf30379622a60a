"""`dg scaffold defs`: the files that a feed of one's own begins with."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from keyword import iskeyword
from pathlib import Path
from string import Template

import click
import dagster as dg
from pydantic import BaseModel, Field

from incremental_assets.errors import DefinitionError
from incremental_assets.quality.contract import RESERVED

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_OPTIONS = ("self", "on_new_column")

_BRONZE = Template('''\
"""Lines of the feed $feed as they landed."""

from incremental_assets import Append, LandedFiles, Table, fail, rows_delivered

$constant = Table(
    name="bronze/$feed",
    description="Lines of the feed $feed as they landed.",
    reads=(LandedFiles("$feed"),),  # <landing>/$feed/YYYY-MM-DD/…
    day="$day",  # its UTC date is the business day
    allowed_lateness="default",
    rules=fail(rows_delivered()),
    write=Append(),
)
''')

_SILVER = Template('''\
"""$title: one row each, typed."""

from incremental_assets import (
    Contract,
    Instant,
    Merge,
    SameDay,
    Table,
    Text,
    fail,
    quarantined_share,
)
from $package.bronze.$feed import $constant as LANDED

$constant = Table(
    name="silver/$feed",
    description="One row per $key, the latest version of each.",
    reads=(SameDay(LANDED),),
    key=("$key",),
    day="$day",  # unchanging for a key
    allowed_lateness="default",
    schema=Contract(
        on_new_column="evolve",  # undeclared fields become columns
        $key=Text(required=True),
        $day=Instant(required=True),
    ),
    rules=fail(quarantined_share(at_most=0.05)),
    write=Merge(),
)
''')

_TEST = Template('''\
"""The feed $feed: what lands twice is in silver once."""

import json
from datetime import UTC, date, datetime
from pathlib import Path

import polars as pl

from incremental_assets import Lakehouse, Settings, local_session, tables_of

DAY = date(2017, 1, 5)


def test_a_row_that_lands_twice_is_in_silver_once(tmp_path: Path) -> None:
    row = {"$key": "a", "$day": f"{DAY}T10:00:00Z"}
    folder = tmp_path / "landing" / "$feed" / str(DAY)
    folder.mkdir(parents=True)
    (folder / "1.jsonl").write_text(f"{json.dumps(row)}\\n" * 2)
    settings = Settings(lake=f"{tmp_path}/lake", landing=f"{tmp_path}/landing", start_date=DAY)
    tables = tables_of("$package")
    lakehouse = Lakehouse(settings, tables, local_session, lambda: datetime.now(UTC))

    for table in tables:
        if table.name in ("bronze/$feed", "silver/$feed"):
            assert not lakehouse.load(table, [DAY]).failed

    assert pl.read_delta(f"{tmp_path}/lake/silver/$feed")["$key"].to_list() == ["a"]
''')


class ScaffoldError(DefinitionError, click.ClickException):
    """What is asked for cannot be written; `dg` prints the message alone."""


class FeedParams(BaseModel):
    """The feed that the first tables read."""

    feed: str = Field(description="The feed's folder below the landing, such as returns.")
    key: str = Field(description="The field that identifies a row, such as return_id.")
    day: str = Field(
        description="The field of when a row happened, ISO 8601, such as returned_at; its UTC date "
        "is the business day."
    )


class IncrementalTablesScaffolder(dg.Scaffolder[FeedParams]):
    """Writes `defs.yaml`, a bronze and a silver table of a feed, and a test of both."""

    @classmethod
    def get_scaffold_params(cls) -> type[FeedParams]:
        return FeedParams

    def scaffold(self, request: dg.ScaffoldRequest[FeedParams]) -> None:
        """Write the files. Raises ScaffoldError where one is there, or a name is none."""
        names = request.params.model_dump()
        try:
            files = _files_of(request, names)
        except ScaffoldError:
            with suppress(OSError):  # it is not empty, so it is not of `dg scaffold`
                request.target_path.rmdir()
            raise
        dg.scaffold_component(
            request, {"lake": "lake", "landing": "landing", "start_date": "2017-01-01"}
        )
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")


def _files_of(
    request: dg.ScaffoldRequest[FeedParams], names: Mapping[str, str]
) -> Mapping[Path, str]:
    for what, name in names.items():
        if not _NAME.fullmatch(name) or iskeyword(name):
            raise ScaffoldError(
                f"--{what} is {name!r}; expected letters in lower case, digits and '_', a "
                "letter first, and no keyword of Python."
            )
    if names["key"] == names["day"]:
        raise ScaffoldError(
            f"--key and --day are both {names['key']!r}; expected the field that identifies a row "
            "and the field of when it happened."
        )
    for what in ("key", "day"):
        if names[what] in _OPTIONS:
            raise ScaffoldError(
                f"--{what} is {names[what]!r}, which is an argument of Contract and no name for a "
                "column; choose another field."
            )
        if names[what] in RESERVED:
            raise ScaffoldError(
                f"--{what} is {names[what]!r}, which is a column of each table of the lake and no "
                "name for one of a Contract; choose another field."
            )
    for part in _package(request.target_path, request.project_root).split("."):
        if not part.isidentifier() or iskeyword(part):
            raise ScaffoldError(
                f"The folder {part!r} cannot be imported by that name; expected letters, digits "
                "and '_', a letter first, and no keyword of Python. Choose another name."
            )
    files = _files(request, names)
    there = [path for path in files if path.exists()]
    if there:
        raise ScaffoldError(f"{there[0]} exists; remove it, or choose another --feed.")
    return files


def _files(request: dg.ScaffoldRequest[FeedParams], names: Mapping[str, str]) -> Mapping[Path, str]:
    """What is to be written: the layers below the component, the test where tests are."""
    folder, root, feed = request.target_path, request.project_root, names["feed"]
    package = _package(folder, root)
    words = {
        **names,
        "package": package,
        "constant": feed.upper(),
        "title": feed.replace("_", " ").capitalize(),
    }
    tests = root / "tests" if root is not None else folder
    layers = [folder / "bronze", folder / "silver"]
    packages = [path for path in (folder, *layers) if not (path / "__init__.py").exists()]
    return {
        **{path / "__init__.py": "" for path in packages},
        layers[0] / f"{feed}.py": _BRONZE.substitute(words),
        layers[1] / f"{feed}.py": _SILVER.substitute(words),
        tests / f"test_{folder.name}_{feed}.py": _TEST.substitute(words),
    }


def _package(folder: Path, root: Path | None) -> str:
    """The name by which the folder of a component is imported: after `src`, or after the root."""
    parts = folder.relative_to(root).parts if root is not None else folder.parts[-1:]
    return ".".join(parts[1:] if parts[0] == "src" else parts)
