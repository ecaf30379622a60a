"""The table that an intake fills: its columns, what it holds already, and how it is settled."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DataType, LongType, StructField, StructType

from incremental_assets.errors import DefinitionError, LakeError
from incremental_assets.frames import quoted
from incremental_assets.intake.found import Found, Position
from incremental_assets.intake.intake import (
    BATCH,
    HASH,
    ORDER,
    TABLE,
    Intake,
)
from incremental_assets.lake.beside import abandon_beside, tolerated
from incremental_assets.lake.delta_log import (
    add_columns,
    ensure_table,
    field_of,
    find_commit,
    last_transaction,
    open_table,
    put_fence,
    require_plain_writes,
    transaction,
)
from incremental_assets.lake.read import plain_files, read_files
from incremental_assets.lake.stage import discard_batch
from incremental_assets.lake.strategy import Append, Merge, ReplaceDay
from incremental_assets.ledger.entry import Entry, FileEntry, Touched
from incremental_assets.ledger.together import LogStanding, require_own
from incremental_assets.ledger.view import TableHistory
from incremental_assets.storage import files_below

KEY = "incremental_assets.key"


@dataclass(frozen=True)
class Target:
    """The target of an intake at one moment, and what the ledger knows of it.

    `last` is the last committed batch, `moments` the watermarks of all of them, and `files` what
    was read of a change log's files. `key` is the one that the target is filled by, if it says so.
    """

    intake: Intake
    columns: Mapping[str, DataType]
    version: int | None
    last: Entry | None
    moments: tuple[str, ...] = ()
    files: Mapping[str, FileEntry] = field(default_factory=dict)
    key: tuple[str, ...] = ()

    @classmethod
    def of(cls, intake: Intake, last: Entry | None, history: TableHistory | None) -> Target:
        """Look at the target. Raises LakeError if there is something that is not a Delta table."""
        committed = history.committed if history else ()
        moments = tuple(e.high for e in committed)
        files = {f.path: f for e in committed for f in e.files}
        table = open_table(intake.target)
        if table is None:
            _refuse_other_files(intake)
            return cls(intake, {}, None, last, moments, files)
        schema = StructType.fromJson(json.loads(table.schema().to_json()))
        types = {f.name: f.dataType for f in schema.fields}
        key = tuple(json.loads(table.metadata().configuration.get(KEY) or "[]"))
        return cls(intake, types, table.version(), last, moments, files, key)

    def again(self) -> Target:
        """The same, looked at again: a table that was just made, or given columns."""
        now = Target.of(self.intake, self.last, None)
        return replace(self, columns=now.columns, version=now.version, key=now.key)

    def require_key(self) -> None:
        """Raise DefinitionError where the target is filled by another key than the intake's."""
        if not self.key or _folded(self.key) == _folded(self.intake.key):
            return
        asked = list(self.intake.key) or "none"
        raise DefinitionError(
            f"{self.intake.name}: the target {self.intake.target} is filled by the primary_key "
            f"{list(self.key)}, and is now to be loaded by {asked}: a row would take the place of "
            "rows that are others, or stand beside its own. Nothing was loaded. Load it by "
            f"{list(self.key)}, or load by the other key into a target of its own."
        )

    def known_types(self) -> dict[str, DataType]:
        """The columns that rows of the source went to before, with their types."""
        own = self.intake.write.validity
        return {n: t for n, t in self.columns.items() if n not in own and not n.startswith("_")}

    def position(self, first: Position) -> Position:
        """Where the last load left off; `first` before the first one."""
        if self.last is None:
            return first
        return Position.after(self.last.position, self.last.high, first, self.intake.name)

    def known_rows(
        self, session: SparkSession, low: datetime | None, but_for: str = ""
    ) -> list[DataFrame]:
        """Hashes of rows that were loaded or quarantined, from a place in the order on.

        `but_for` is as for `set_aside`.
        """
        known = [self.intake.target] if HASH in self.columns else []
        if not isinstance(self.intake.write, Append | ReplaceDay):
            known.append(self.intake.beside)
        found = self.set_aside(session, but_for)
        near = F.lit(True) if low is None else F.col(ORDER).isNull() | (F.col(ORDER) >= F.lit(low))
        for path in known:
            found += [rows.where(near).select(HASH) for rows in self.side(session, path)]
        return found

    def without_beaten(
        self, session: SparkSession, rows: DataFrame, low: datetime | None
    ) -> DataFrame:
        """The rows without those that a later one of their key, in the target, has replaced."""
        if not isinstance(self.intake.write, Merge) or ORDER not in self.columns:
            return rows
        there = self.read(session, self.intake.target)
        if low is not None:
            there = there.where(F.col(ORDER) >= F.lit(low))
        key = [quoted(name) for name in self.intake.key]
        later = there.selectExpr(*key, f"{ORDER} AS _later")
        joined = rows.join(later, list(self.intake.key), "left")
        return joined.where(f"_later IS NULL OR NOT ({ORDER} IS NULL OR {ORDER} < _later)").drop(
            "_later"
        )

    def set_aside(self, session: SparkSession, but_for: str = "") -> list[DataFrame]:
        """Hashes of the rows that were quarantined before, but for those with this reason."""
        other = ~F.array_contains("reasons", but_for) if but_for else F.lit(True)
        rows = self.side(session, self.intake.quarantine)
        return [each.where(other).select(HASH) for each in rows]

    def side(self, session: SparkSession, path: str) -> list[DataFrame]:
        """The rows of a table beside the target, if it has any.

        One without a file may lack columns: older versions made it in more than one commit.
        """
        there = open_table(path)
        return [self.read(session, path)] if there is not None and there.file_uris() else []

    @staticmethod
    def read(session: SparkSession, path: str) -> DataFrame:
        """A table of the load as it is now."""
        table = plain_files(path, DeltaTable(path).version())
        return read_files(session, table, table.files)

    def numbers(self) -> int:
        """The highest batch number that the target or a table beside it has ever had."""
        intake = self.intake
        sides = (
            (intake.target, intake.name),
            (intake.beside, intake.beside_app),
            (intake.beside, intake.ties_app),
            (intake.quarantine, intake.quarantine_app),
        )
        return max(transaction(path, app) for path, app in sides)


@dataclass(frozen=True)
class Settling:
    """The settling side of an intake: what the target's log says of a batch."""

    intake: Intake
    undo: Callable[[int], None]
    say: Callable[[str], None] = lambda _: None

    @property
    def remedy(self) -> str:
        return (
            "Restore the target and the watermarks as they were at one time; or load with another "
            "watermark_path: everything is then read again, and merged where there is a "
            "primary_key (without one, name start_from)."
        )

    def standing(self) -> LogStanding:
        """Where the target stands; one of which the ledger knows nothing is filled on."""
        is_there, last = last_transaction(self.intake.target, self.intake.name)
        return LogStanding(self.intake.target, is_there, last, filled_on=True)

    def outcome(self, claims: Sequence[Entry]) -> Sequence[Entry] | None:
        """The outcome of a batch as its commit tells it; None if the target does not have it."""
        claim = claims[0]
        if open_table(self.intake.target) is None:
            return None
        commit = find_commit(self.intake.target, self.intake.name, claim.batch)
        if commit is None:
            return None
        if commit.note.get("fence"):
            self._abandon(claim.batch)
            return [replace(claim, state="abandoned", high=claim.low)]
        require_own(claim, commit.note, self.intake.target, self.remedy)
        metrics = commit.note.get("metrics", {})
        days = commit.note.get("touched", {}).items()
        touched = tuple(Touched(date.fromisoformat(day), rows) for day, rows in days)
        why = f"{claim.why} (healed)".strip()
        return [
            replace(
                claim,
                **metrics,
                state="committed",
                touched=touched,
                target_version=commit.version,
                why=why,
            )
        ]

    def fence(self, batch: int) -> bool:
        """Make the batch impossible; False if somebody committed first."""
        if open_table(self.intake.target) is not None and not put_fence(
            self.intake.target, self.intake.name, batch
        ):
            return False
        self._abandon(batch)
        return True

    def _abandon(self, batch: int) -> None:
        intake = self.intake
        own = {TABLE: intake.name}
        abandon_beside(intake.quarantine, intake.quarantine_app, batch, own)
        abandon_beside(intake.beside, intake.beside_app, batch, own)
        abandon_beside(intake.beside, intake.ties_app, batch, own)
        self.undo(batch)
        if open_table(intake.target) is None:
            return
        with tolerated(f"{intake.name}: files that batch {batch} had staged", self.say):
            discard_batch(intake.target, intake.name, batch)


def _refuse_other_files(intake: Intake) -> None:
    """Raise LakeError where the target holds files of something else."""
    own = (intake.snapshot, intake.ledger)
    others = [
        f.path
        for f in files_below(intake.target, skip=lambda name: name.startswith(("_", ".")))
        if not any(f"{intake.target}/{f.path}".startswith(f"{path}/") for path in own if path)
    ]
    if others:
        raise LakeError(
            f"{intake.name}: the target {intake.target} is no Delta table, but holds {others[0]} "
            f"({len(others)} files). Nothing was loaded; choose an empty place, or make it a Delta "
            "table (CONVERT TO DELTA)."
        )


def ensure_columns(intake: Intake, found: Found) -> None:
    """Make the target with its columns, or give it those that it lacks."""
    rows = found.rows.schema
    columns = [StructField(BATCH, LongType()), *(rows[n] for n in (*found.own, *intake.order))]
    if intake.write.keeps_versions:
        at = rows[intake.clock or ORDER].dataType
        columns += map(StructField, intake.write.validity, (at, at, BooleanType()))
    fields = [field_of(column) for column in columns]
    table = open_table(intake.target)
    if table is None:
        missing = sorted(set(intake.partition_by) - set(found.own))
        if missing:
            raise LakeError(
                f"{intake.name}: partition_by names {missing}, which the source does not have; it "
                f"has {sorted(found.own)}. Nothing was loaded."
            )
        named = [(str(field["name"]), field["type"]) for field in fields]
        ensure_table(intake.target, intake.name, named, intake.partition_by, _key_of(intake))
    else:
        require_plain_writes(table, intake.target)
        add_columns(intake.target, fields)


def ensure_key(intake: Intake, target: Target) -> None:
    """Write down the key of a target that an older version made; the first that comes is it."""
    if target.key or not _key_of(intake):
        return
    try:
        DeltaTable(intake.target).alter.set_table_properties(
            _key_of(intake), raise_if_not_exists=False
        )
    except DeltaError as error:
        raise LakeError(
            f"{intake.target} cannot be given a property: {error}. Load again."
        ) from error


def _key_of(intake: Intake) -> dict[str, str]:
    """The key as a property of the target, if rows are told apart by it."""
    by_key = intake.write.by_key
    return {KEY: json.dumps(intake.key)} if by_key else {}


def _folded(names: Sequence[str]) -> set[str]:
    return {name.lower() for name in names}
