"""The batches of a table by its log and files, as entries of a ledger that does not have them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from incremental_assets.delta.delta_log import FENCE, Commit, commits
from incremental_assets.delta.delta_table import open_table
from incremental_assets.delta.read import DataFile, plain_files
from incremental_assets.delta_protocol.log_files import log_files
from incremental_assets.engine.kinds import detector_of, kind_of
from incremental_assets.engine.retraction import DECISION
from incremental_assets.errors import LakeError
from incremental_assets.ledger.consistency import CLAIM_NOTE
from incremental_assets.ledger.entry import Entry, FileEntry, State, Touched
from incremental_assets.query import query
from incremental_assets.storage import open_file
from incremental_assets.table import Table


def entries_from_log(
    path: str, table: Table, last: int, upstream_days: Iterable[date], why: str
) -> list[Entry]:
    """The outcomes of the batches that the log still has, oldest first; `last` is its last one.

    Where the log was cut, all earlier batches are one that published every possible day: those of
    the table's files, and of a silver or gold table those of its upstreams. All count as
    restatements, so what is built on such a day is rebuilt.
    """
    found: list[Entry] = []
    for number, at, commit in commits(path, table.name):
        found += _of_commit(table, number, at, commit, why)
    before = min((entry.batch for entry in found), default=last + 1) - 1
    if before > 0 and 0 not in log_files(path).commits:
        found += _before(path, table, before, upstream_days, why)
    return sorted(found, key=lambda entry: (entry.batch, entry.day))


def rebuild_entry(
    table: Table, batch: int, day: date, state: State, at: datetime, why: str
) -> Entry:
    """The entry of a batch that counts as a rebuild of a day; what else is known is to be added."""
    return Entry(
        table=table.name,
        batch=batch,
        day=day,
        state=state,
        kind="restate",
        mode="rebuild",
        detector=detector_of(table),
        recorded_at=at,
        why=why,
    )


def landed_files(path: str, table: Table) -> Mapping[date, tuple[FileEntry, ...]]:
    """The landed files whose rows a bronze table has, by landing day; their bytes are not known."""
    found: dict[date, set[str]] = {}
    for file in _files(path):
        own = found.setdefault(file.partition["_landing_day"], set())
        own |= {name for name in _landed_in(path, file).unique().to_pylist() if name}
    return {
        day: tuple(FileEntry(name, 0, "", "") for name in sorted(names))
        for day, names in found.items()
    }


def landed_rows(path: str, landed: date) -> Mapping[tuple[str, date], int]:
    """How many rows of a landing day a bronze table has, by landed file and day of silver."""
    found: Counter[tuple[str, date]] = Counter()
    for file in _files(path):
        if file.partition["_landing_day"] == landed:
            names = Counter(_landed_in(path, file).to_pylist())
            day = file.partition["_day"]
            found.update({(name, day): rows for name, rows in names.items() if name})
    return found


def _landed_in(path: str, file: DataFile) -> pa.ChunkedArray:
    """The landed file of each row of a data file."""
    try:
        with open_file(f"{path}/{file.path}") as stream:
            return pq.read_table(stream, columns=["_file"], partitioning=None)["_file"]
    except (OSError, pa.ArrowInvalid, KeyError) as error:
        raise LakeError(f"{path}/{file.path} cannot be read: {error}") from error


def days_in_quarantine(path: str) -> Mapping[date, int]:
    """How many rows of each day are in a table's quarantine."""
    there = open_table(path)
    if there is None:
        return {}
    try:
        return Counter(query(there, "_day")["_day"].drop_nulls().to_list())
    except (DeltaError, OSError) as error:
        raise LakeError(f"{path} cannot be read: {error}") from error


def _of_commit(table: Table, number: int, at: datetime, commit: Commit, why: str) -> list[Entry]:
    if commit.note.get(FENCE):
        return [rebuild_entry(table, number, at.date(), "abandoned", at, why)]
    token = commit.note.get(CLAIM_NOTE, "")
    days = map(date.fromisoformat, commit.note.get("days", {}))
    claims = [
        replace(rebuild_entry(table, number, day, "claimed", at, why), token=token) for day in days
    ]
    decision = commit.note.get(DECISION)
    if decision:
        files = tuple(FileEntry(path, size, tag, "") for path, size, tag in decision["files"])
        by = {"who": decision["who"], "why": decision["why"]}
        claims = [replace(claim, kind="retract", files=files, **by) for claim in claims]
    return list(kind_of(table).settled(table, claims, commit))


def _before(
    path: str, table: Table, batch: int, upstream_days: Iterable[date], why: str
) -> list[Entry]:
    """The batch that represents all that the log no longer has."""
    bronze = table.layer == "bronze"
    touched: dict[date, Counter[date]] = {} if bronze else {day: Counter() for day in upstream_days}
    for file in _files(path):
        if bronze:
            day, own = file.partition["_landing_day"], file.partition["_day"]
        else:
            day = own = file.partition["dt"]
        if day is not None and own is not None:
            touched.setdefault(day, Counter())[own] += file.rows or 0
    now = datetime.now(UTC)  # the version of the last of these batches is not known
    return [
        replace(
            rebuild_entry(table, batch, day, "committed", now, why),
            touched=tuple(Touched(own, number) for own, number in sorted(rows.items())),
        )
        for day, rows in touched.items()
    ]


def _files(path: str) -> Iterable[DataFile]:
    return plain_files(path, DeltaTable(path).version()).files
