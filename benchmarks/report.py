"""Tables of figures, for the terminal and as Markdown, and the machine they come from."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from rich.console import Console
from rich.table import Table as RichTable

RESULTS = Path(__file__).with_name("results")
PACKAGES = ("pyspark", "delta-spark", "dagster", "deltalake", "polars")


@dataclass(frozen=True)
class Row:
    """The cells of a row; missing ones at its end are empty."""

    cells: Sequence[str]


@dataclass
class Table:
    """A table of figures; the first column says what."""

    title: str
    columns: Sequence[str]
    rows: list[Row] = field(default_factory=list)

    def add(self, what: str, *seconds: float) -> None:
        self.rows.append(Row([what, *(f"{each:.1f}" for each in seconds)]))

    def filled(self) -> list[list[str]]:
        return [[*row.cells, *[""] * (len(self.columns) - len(row.cells))] for row in self.rows]


def show(tables: Sequence[Table]) -> None:
    console = Console()
    for table in tables:
        shown = RichTable(title=table.title, title_justify="left")
        for index, name in enumerate(table.columns):
            shown.add_column(name, justify="right" if index else "left")
        for cells in table.filled():
            shown.add_row(*cells)
        console.print(shown)


def write(
    name: str, title: str, how: str, tables: Sequence[Table], facts: Mapping[str, str]
) -> Path:
    """Write `results/<name>.md`; `how` says by what it is written, and in which manner."""
    RESULTS.mkdir(exist_ok=True)
    target = RESULTS / f"{name}.md"
    target.write_text(_markdown(title, how, tables, facts), encoding="utf-8")
    return target


def _markdown(title: str, how: str, tables: Sequence[Table], facts: Mapping[str, str]) -> str:
    lines = [f"# {title}", "", f"Written by {how}.", ""]
    for table in tables:
        lines += [f"## {table.title}", ""]
        align = ["---", *["---:"] * (len(table.columns) - 1)]
        for cells in (table.columns, align, *table.filled()):
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    lines += ["## Machine", "", *(f"- {name}: {value}" for name, value in facts.items()), ""]
    return "\n".join(lines)


def machine() -> Mapping[str, str]:
    """What the figures depend on, with the load of the machine at the end of the measuring."""
    return {
        "when": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "cores": str(os.cpu_count()),
        "load average at the end (1, 5, 15 minutes)": _load(),
        "memory": f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GiB",
        "system": platform.platform(),
        "Java": _java(),
        "Python": platform.python_version(),
    } | {name: version(name) for name in PACKAGES}


def _load() -> str:
    return ", ".join(f"{each:.1f}" for each in os.getloadavg())


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    printed = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    return printed.stderr.splitlines()[0] if printed.stderr else "unknown"
