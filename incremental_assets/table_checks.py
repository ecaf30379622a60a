"""Contradictions in the definition of a table, refused when it is defined."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from incremental_assets.changes.by_log import ChangeLog
from incremental_assets.changes.by_snapshot import SnapshotDiff
from incremental_assets.changes.by_upserts import Upserts
from incremental_assets.changes.detector import Detector
from incremental_assets.changes.files import Files
from incremental_assets.errors import DefinitionError
from incremental_assets.gold_checks import check_gold
from incremental_assets.quality.contract import Contract
from incremental_assets.quality.gate import structural_rules
from incremental_assets.quality.rule import DayRule, Rule
from incremental_assets.quality.types import FieldType, Integer, Text
from incremental_assets.write_checks import check_write
from incremental_assets.writes import WriteStrategy

if TYPE_CHECKING:
    from incremental_assets.table import Table

LEAST_FRESH = timedelta(minutes=5)
# Whom Dagster takes for an owner.
_OWNER = re.compile(r"team:.+|[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,7}")
_TYPES_OF_DAYS = ("timestamp", "timestamp_ntz", "date")


def check_kinds(table: Table) -> None:
    """Raise DefinitionError for a value that is of another kind than the table expects."""
    name, schema, rules = table.name, table.schema, table.rules
    expected = (
        ("reads", isinstance(table.reads, tuple), "a tuple: (Stored(…),)"),
        ("write", isinstance(table.write, WriteStrategy), "a write strategy, such as Merge()"),
        ("changes", isinstance(table.changes, Detector), "a change detector, such as Files()"),
        ("schema", schema is None or isinstance(schema, Contract), "a Contract(id=Text(), …)"),
        ("rules", _are_rules(rules), "a tuple of rules, such as (not_null('id'),)"),
        ("transform", table.transform is None or callable(table.transform), "a function"),
    )
    for field, is_good, kind in expected:
        if not is_good:
            raise DefinitionError(f"{name}: {field} is {getattr(table, field)!r}; expected {kind}.")
    for name, columns in (("key", table.key), ("version_by", table.version_by)):
        if isinstance(columns, str):
            raise DefinitionError(
                f"{table.name}: {name} is {columns!r}; expected a tuple of columns: ({columns!r},)."
            )
    late = table.allowed_lateness
    if not (late is None or late == "default" or isinstance(late, timedelta)):
        raise DefinitionError(
            f"{table.name}: allowed_lateness is {late!r}; expected a timedelta, such as "
            "timedelta(days=7), 'default' for the setting, or None for no limit."
        )


def _are_rules(rules: object) -> bool:
    return isinstance(rules, Sequence) and all(isinstance(rule, Rule) for rule in rules)


def check_table(table: Table) -> None:
    """Raise DefinitionError, naming the table, for what contradicts itself or cannot be loaded."""
    names = [rule.name for rule in table.rules]
    if len(set(names)) != len(names):
        raise DefinitionError(f"{table.name}: two rules have the same name: {sorted(names)}.")
    structural = set(structural_rules(table.of_payload)) if table.is_typed else set()
    taken = sorted(set(names) & {*structural, *table.changes.checks()})
    if taken:
        raise DefinitionError(
            f"{table.name}: every such table has the rules {taken}; give yours other names."
        )
    _check_rules(table)
    _check_fresh(table)
    _check_labels(table)
    if table.layer == "bronze":
        _check_source(table)
    elif not isinstance(table.changes, Files):
        raise DefinitionError(
            f"{table.name}: changes is {table.changes!r}; inside the lake the batches show what is "
            "new. Give it to the bronze table that reads the source."
        )
    elif table.is_typed:
        _check_typed(table)
    else:
        check_gold(table)


def _check_fresh(table: Table) -> None:
    within = table.fresh_within
    if isinstance(within, timedelta) and within < LEAST_FRESH:
        raise DefinitionError(
            f"{table.name}: fresh_within is {within}; give {LEAST_FRESH} or more, or None."
        )


def _check_labels(table: Table) -> None:
    """What Dagster shows of a table, and would refuse without naming its file."""
    name, owners, version = table.name, table.owners, table.code_version
    if not isinstance(version, str):
        raise DefinitionError(
            f"{name}: code_version is {version!r}; expected text, such as {str(version)!r}."
        )
    if isinstance(owners, str):
        raise DefinitionError(f"{name}: owners is {owners!r}; expected a tuple: ({owners!r},).")
    for owner in owners:
        if not (isinstance(owner, str) and _OWNER.fullmatch(owner)):
            raise DefinitionError(
                f"{name}: owners has {owner!r}; expected an e-mail address or 'team:' and a name, "
                "such as 'team:sales'."
            )


def _check_rules(table: Table) -> None:
    name = table.name
    if table.layer == "bronze":
        measured = [r.name for r in table.rules if isinstance(r, DayRule) and r.measures]
        if measured:
            raise DefinitionError(
                f"{name}: {measured} measure columns, and bronze has none but the payload; give "
                "them to silver."
            )
    if table.layer != "bronze" and not table.is_typed:
        quarantining = [rule.name for rule in table.row_rules if rule.severity == "quarantine"]
        if quarantining:
            raise DefinitionError(
                f"{name}: {quarantining} would quarantine rows, but these are made of good ones: "
                "hold the day with fail(…), record it with warn(…), or give the rule to silver."
            )
    _check_rules_on_whole_days(table)
    if table.schema is None or table.transform is not None or not table.is_typed:
        return  # which columns there are is known when there is a frame
    known = {column.lower() for column in table.schema.columns}
    for rule in table.rules:
        unknown = [c for c in rule.columns if c.lower() not in known and not c.startswith("_")]
        if unknown:
            raise DefinitionError(
                f"{name}: rule {rule.name} reads {unknown}, and the contract has "
                f"{sorted(table.schema.columns)}. Correct the rule, or declare the column."
            )


def _check_rules_on_whole_days(table: Table) -> None:
    by_key = table.write.recomputes_keys
    of_days = [r.name for r in table.rules if isinstance(r, DayRule) and r.of_volume]
    if of_days and by_key:
        raise DefinitionError(
            f"{table.name}: {of_days} count the rows of a day, and a batch of keys has rows of any "
            "day."
        )
    afar = [r.name for r in table.rules if isinstance(r, DayRule) and r.reads_table]
    if afar and (table.layer != "gold" or by_key):
        raise DefinitionError(
            f"{table.name}: {afar} compare a whole day with another table's, and a batch of this "
            "table does not hold one; give them to a gold table that is rebuilt by day."
        )


def _check_source(table: Table) -> None:
    name, changes = table.name, table.changes
    if len(table.reads) != 1 or not (table.feed or table.source):
        raise DefinitionError(
            f"{name}: a bronze table reads one LandedFiles(…), Stored(…), Jdbc(…) or Kafka(…)."
        )
    check_write(table)
    if table.feed is not None and not isinstance(changes, Files | ChangeLog | SnapshotDiff):
        raise DefinitionError(
            f"{name}: changes is {changes!r}, but in day folders the files show what is new: use "
            "Files(), ChangeLog(…) or SnapshotDiff(…). Timestamp and Sequence read a Stored(…)."
        )
    _check_detector(table)
    if isinstance(changes, SnapshotDiff) and table.source is not None and table.source.day:
        raise DefinitionError(
            f"{name}: a snapshot is of one moment and has no day column; leave `day` out."
        )
    if isinstance(changes, SnapshotDiff | ChangeLog | Upserts) and table.day is not None:
        raise DefinitionError(
            f"{name}: what a log or a snapshot changes may change for ever, so it has no business "
            "day; leave `day` out."
        )
    rows = [rule.name for rule in table.row_rules]
    if rows:
        raise DefinitionError(
            f"{name}: {rows} judge rows, and bronze keeps every row; give them to silver."
        )


def _check_detector(table: Table) -> None:
    """Whether what shows what is new in a source in place is there."""
    name, changes, source = table.name, table.changes, table.source
    if source is None:
        return
    if isinstance(changes, Files):
        raise DefinitionError(
            f"{name}: a stored source needs a change detector: changes=Timestamp(…), Sequence(…), "
            "ChangeLog(…) or SnapshotDiff(…); of a topic's events Offsets()."
        )
    if changes.reads_once and not source.can_be_log:
        raise DefinitionError(
            f"{name}: {type(changes).__name__} reads files or versions, and {source.path} "
            "has neither; use Timestamp(…), Sequence(…) or SnapshotDiff(…)."
        )
    if changes.needs_offsets and not source.has_offsets:
        raise DefinitionError(
            f"{name}: {type(changes).__name__} reads topics, whose messages have offsets, and "
            f"{source.path} is none; use Timestamp(…), Sequence(…) or ChangeLog(…)."
        )
    if source.has_offsets and not changes.reads_once:
        raise DefinitionError(
            f"{name}: {type(changes).__name__} compares rows, and {source.path} is a topic, of "
            "which each message is read once; use Offsets(), Upserts() or ChangeLog(…)."
        )


def _check_typed(table: Table) -> None:
    name, log = table.name, table.log
    _check_bronze(table)
    check_write(table)
    assert table.schema is not None
    used = {*table.key, *table.version_by, *([table.day] if table.day else [])}
    missing = sorted(used - set(table.schema.columns))
    if missing:
        raise DefinitionError(f"{name}: {missing} are used but not in the contract.")
    _check_day(table)
    if log is not None:
        _check_log(table, log)
    if table.write.keeps_versions:
        _check_versions(table)
    _check_values(table)


def _check_day(table: Table) -> None:
    """Whether the contract has a business day that can be read from its column."""
    if table.day is None or table.schema is None or table.transform is not None:
        return  # a transform may give the column another type
    kind = table.schema.columns[table.day]
    if kind.sql not in _TYPES_OF_DAYS:
        raise DefinitionError(
            f"{table.name}: day is {table.day!r}, and the contract has it as "
            f"{type(kind).__name__}(), from which no day can be read. Declare "
            f"{table.day}=Instant()."
        )


def _check_bronze(table: Table) -> None:
    """Whether what it reads can be typed together."""
    name, bronze = table.name, [read.table for read in table.same_days]
    renamed = table.transform is not None  # then the day may have another name here
    for each in bronze:
        if table.day and each.day not in (None, table.day) and not renamed:
            raise DefinitionError(
                f"{name}: day is {table.day!r}, and {each.name} has {each.day!r}. Name the field "
                "of the landed rows in both."
            )
    if len(bronze) != len(table.reads) or any(each.layer != "bronze" for each in bronze):
        raise DefinitionError(
            f"{name}: a table over bronze types the rows of bronze tables, and this one also reads "
            "others. Join them in gold."
        )
    if len({each.name for each in bronze}) != len(bronze):
        raise DefinitionError(f"{name}: it reads a table twice; each of its rows is read once.")
    events = [each.name for each in bronze if each.changes.finds_deletes]
    if events and any(read.values for read in table.same_days):
        raise DefinitionError(
            f"{name}: values= is for rows, and {events[0]} has changes or snapshots, whose keys "
            "are in the events. Leave values out; add the column in gold."
        )
    if events and len(bronze) > 1:
        raise DefinitionError(
            f"{name}: {events[0]} has changes or snapshots, whose order relative to the rows of "
            "other tables is unknown. Make a silver table of each, and join them in gold."
        )


def _check_values(table: Table) -> None:
    """Whether the columns that show which table a row is of have a value of each table."""
    assert table.schema is not None
    given = {read.table.name: set(read.values) for read in table.same_days}
    for column in sorted(set().union(*given.values())):
        missing = [name for name, columns in given.items() if column not in columns]
        kind = table.schema.columns.get(column)
        if kind is None or missing:
            why = (
                f"its contract does not declare it; add {column}=Text()"
                if kind is None
                else f"{missing[0]} has none; give each table that it reads a value"
            )
            raise DefinitionError(f"{table.name}: values= names the column {column!r}, and {why}.")
        for read in table.same_days:
            _check_value(table, column, kind, read.values[column])


def _check_value(table: Table, column: str, kind: FieldType, value: object) -> None:
    fits = isinstance(value, str) if isinstance(kind, Text) else isinstance(kind, Integer)
    if isinstance(kind, Integer):
        most = 2 ** (63 if kind.wide else 31)
        fits = isinstance(value, int) and not isinstance(value, bool) and -most <= value < most
    if not fits:
        raise DefinitionError(
            f"{table.name}: values= gives {column!r} the value {value!r}, and the contract has it "
            f"as {type(kind).__name__}(); give a text for Text(), a whole number for Integer()."
        )


def _check_log(table: Table, log: Detector) -> None:
    name = table.name
    if table.version_by or table.day:
        raise DefinitionError(
            f"{name}: its changes have an order of their own, and its rows may change for ever; "
            "leave version_by and day out."
        )
    if isinstance(log, ChangeLog) and log.unchanged != "marked" and table.transform is not None:
        raise DefinitionError(
            f"{name}: with unchanged={log.unchanged!r} an update lacks columns, and a transform "
            "would compute others from them. Leave the transform out, and transform in a table of "
            "its own."
        )
    if isinstance(log, SnapshotDiff) and set(log.key) != set(table.key):
        raise DefinitionError(
            f"{name}: the snapshots are compared by {log.key}; the key has to be the same."
        )


def _check_versions(table: Table) -> None:
    name, log = table.name, table.log
    write, named = table.write, f"{type(table.write).__name__}()"
    assert table.schema is not None
    if log is None and len(table.version_by) != 1:
        raise DefinitionError(
            f"{name}: {named} measures the versions by one column; name it in version_by."
        )
    if write.by_event_time:
        if log is None:
            raise DefinitionError(
                f"{name}: over rows {named} measures the versions by version_by; "
                'valid_time="event" is for change logs.'
            )
        if isinstance(log, ChangeLog) and log.envelope == "flat" and not log.time:
            raise DefinitionError(
                f"{name}: the log does not record when a row changed; name the field: "
                'ChangeLog(time="changed_at").'
            )
    own = sorted(set(write.validity) & {column.lower() for column in table.schema.columns})
    if own:
        raise DefinitionError(
            f"{name}: {named} adds the columns {', '.join(write.validity)}; the contract "
            f"names {own}. Rename them in a transform."
        )
    if table.day is not None:
        raise DefinitionError(f"{name}: the versions of a key are on many days; leave day out.")
