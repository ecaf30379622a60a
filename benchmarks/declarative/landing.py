"""What lands after the first load: a late row, a repaired file, and corrections."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from incremental_assets.days import ONE_DAY

LATE_BY = 3 * ONE_DAY
REPAIRED_ROWS = 5
ONE_IN = 100

Event = dict[str, Any]


def late_row(landing: Path, first: date, last: date) -> None:
    """The day after the last one lands, with one sale: of three days before."""
    today = last + ONE_DAY
    sold = str(max(today - LATE_BY, first))
    like = next(row for row in newest(landing).values() if row["event_ts"].startswith(sold))
    row = {**like, "order_id": "late-1", "arrival_ts": f"{today}T06:00:00Z"}
    _write(landing / "events" / str(today) / "part-1.jsonl", [row])


def repaired_file(landing: Path, first: date, _: date) -> None:
    """A file of the first day is replaced; five of its rows have another quantity."""
    file = max((landing / "events" / str(first)).iterdir())
    versions = newest(landing)
    lines, repaired = file.read_text().splitlines(), 0
    for number, line in enumerate(lines):
        row = _event(line)
        if row and repaired < REPAIRED_ROWS and versions[row["order_id"]] == row:
            lines[number] = json.dumps({**row, "qty": row["qty"] + 1})
            repaired += 1
    _replace(file, lines)


def updated_orders(landing: Path, _first: date, _last: date) -> None:
    """One order in a hundred is corrected, as the demo's feed corrects one.

    The same `order_id` with another quantity arrives a day after the version before it, and lands
    on that day: in a file of its own.
    """
    versions = newest(landing)
    landed: dict[str, list[Event]] = {}
    for order in sorted(versions)[::ONE_IN]:
        row = versions[order]
        arrives = datetime.fromisoformat(row["arrival_ts"]).astimezone(UTC) + timedelta(days=1)
        corrected = {"qty": row["qty"] + 1, "arrival_ts": f"{arrives:%Y-%m-%dT%H:%M:%SZ}"}
        landed.setdefault(str(arrives.date()), []).append({**row, **corrected})
    for day, rows in landed.items():
        _write(landing / "events" / day / "corrections.jsonl", rows)


def newest(landing: Path) -> dict[str, Event]:
    """The newest version of each order that landed and can be read."""
    versions: dict[str, Event] = {}
    for file in sorted((landing / "events").glob("*/*.jsonl")):
        for line in file.read_text().splitlines():
            row = _event(line)
            if not row:
                continue
            before = versions.get(row["order_id"])
            if before is None or before["arrival_ts"] < row["arrival_ts"]:
                versions[row["order_id"]] = row
    return versions


def _event(line: str) -> Event:
    """The event of a line, empty if the line is damaged."""
    try:
        row: Event = json.loads(line)
    except ValueError:
        return {}
    whole = row["order_id"] and isinstance(row["qty"], int) and row["unit_price"] >= 0
    return row if whole else {}


def _write(file: Path, rows: list[Event]) -> None:
    file.parent.mkdir(exist_ok=True)
    _replace(file, [json.dumps(row) for row in rows])


def _replace(file: Path, lines: list[str]) -> None:
    """The file appears whole, as the demo's files do."""
    hidden = file.with_name(f".{file.name}")
    hidden.write_text("\n".join(lines) + "\n")
    hidden.replace(file)
