"""Accepting a held day: a manual decision that publishes it once, as it was judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime

from incremental_assets.errors import DefinitionError
from incremental_assets.lakehouse import Lakehouse
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.hold_reason import rules_in
from incremental_assets.ledger.lock import table_lock
from incremental_assets.ledger.settle import record_decision
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan import upstream_held
from incremental_assets.quality.rule import RowRule
from incremental_assets.settings import user_name
from incremental_assets.table import Table


@dataclass(frozen=True)
class Accepted:
    """What was accepted: the days, the batch that was held, and the rules that it broke."""

    days: tuple[date, ...]
    batch: int
    rules: tuple[str, ...]


def accept(lakehouse: Lakehouse, table: Table, day: date, reason: str) -> Accepted:
    """Record that a day's held batch is accepted; the next load of the day then publishes it.

    It accepts what the rules on the batch found, for the input that they judged: rows in
    quarantine stay there, and once the input changes the gate judges the day as usual. The days of
    a table that recomputes keys are accepted together. Raises DefinitionError where there is
    nothing to accept, and ConflictError where a load is in progress and there are no locks.
    """
    if not reason.strip():
        raise DefinitionError("An acceptance needs a reason, which stays in the ledger: give one.")
    with table_lock(lakehouse.settings.lake, table.name, "an acceptance", lakehouse.log):
        view = lakehouse.settle(table)
        held = _held(table, day, view)
        rules = _rules_to_waive(table, held)
        together = table.write.recomputes_keys
        history = view.table(table.name)
        days = [d for d, e in history.held.items() if together and e.batch == held.batch] or [day]
        now, last = lakehouse.now(), history.last_batch
        entries = [
            _acceptance(history.held[each], last + 1, rules, reason.strip(), now)
            for each in sorted(days)
        ]
        record_decision(lakehouse.ledger, table.name, last, entries, "accepted")
    return Accepted(tuple(sorted(days)), held.batch, rules)


def _acceptance(
    held: Entry, number: int, rules: Sequence[str], reason: str, now: datetime
) -> Entry:
    """The entry of a day: the input that was judged, the accepted rules, who did it, and why."""
    return Entry(
        table=held.table,
        batch=number,
        day=held.day,
        state="accepted",
        kind=held.kind,
        mode=held.mode,
        detector=held.detector,
        recorded_at=now,
        windows=held.windows,
        files=held.files,
        held_by=", ".join(rules),
        who=user_name(),
        why=reason,
        position=held.position,
        code_version=held.code_version,
    )


def _held(table: Table, day: date, view: LedgerView) -> Entry:
    """The held batch of a day, if there is one that was not accepted."""
    history = view.table(table.name)
    accepted = history.accepted.get(day)
    if accepted is not None:
        raise DefinitionError(
            f"{table.name} {day} was accepted by {accepted.who} before ({accepted.why}); run it."
        )
    held = history.held.get(day)
    if held is not None and history.is_held_and_rewound(day):
        raise DefinitionError(
            f"{table.name} {day} was rewound since batch {held.batch} held it: run it, and it is "
            "evaluated again; if it is held then, accept that."
        )
    if held is not None:
        return held
    upstream = upstream_held(table, day, view)
    if upstream:
        raise DefinitionError(f"{table.name} {day} has not been evaluated itself: {upstream}.")
    others = ", ".join(map(str, sorted(history.held)[:10])) or "none"
    last = history.last_committed.get(day)
    what = f"its batch {last.batch} was published" if last else "it was never loaded"
    raise DefinitionError(
        f"{table.name} {day} is not held: {what}. Held days of the table: {others}."
    )


def _rules_to_waive(table: Table, held: Entry) -> tuple[str, ...]:
    """The rules that held the batch, all of them on batches."""
    failed = rules_in(held.held_by)
    names = [n for n, check in table.checks().items() if check.blocking and n in failed]
    on_rows = [
        rule.name for rule in table.rules if isinstance(rule, RowRule) and rule.name in names
    ]
    if on_rows:
        raise DefinitionError(
            f"{table.name} {held.day}: {', '.join(on_rows)} judges rows, and rows that fail it "
            "would be published. Repair them, or give the rule the severity quarantine, and run "
            "the day again."
        )
    if not names:
        raise DefinitionError(
            f"{table.name} {held.day} was held by {held.held_by!r}, which is no rule of the table "
            "any more; run the day again, and it is evaluated by today's rules."
        )
    return tuple(names)
