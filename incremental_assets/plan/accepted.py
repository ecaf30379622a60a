"""Held days that a manual decision accepted: once, and for the input that was judged."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta

from incremental_assets.changes.position import is_as_read, state_of
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan.work import DayWork, Plan, Work
from incremental_assets.table import AsOf, Table


def with_accepted(plan: Plan, table: Table, view: LedgerView) -> Plan:
    """The plan, with the rules that a manual decision accepted for its day."""
    accepted = view.table(table.name).accepted
    if not accepted:
        return plan
    of_any_day = None
    if table.reads_whole_source:  # so any load reads what was judged and accepted
        of_any_day = max(accepted.values(), key=lambda entry: entry.batch)
    notes = list(plan.notes)
    works: list[Work] = []
    for work in plan.work:
        days = dict(work.days)
        for day, todo in work.days.items():
            entry = accepted.get(day, of_any_day)
            if entry is None:
                continue
            changed = _changed(entry, todo, table, view)
            if changed:
                notes.append(f"{changed} since it was accepted, so its gate judges it.")
                continue
            why = f"{todo.why}; accepted by {entry.who}: {entry.why}"
            days[day] = replace(todo, why=why, accepted=accepted_rules(entry))
        planned = replace(work, days=days)
        works += _by_accepted(planned) if table.write.recomputes_keys else [planned]
    return replace(plan, work=tuple(works), notes=tuple(notes))


def _changed(accepted: Entry, todo: DayWork, table: Table, view: LedgerView) -> str:
    """What of a day is not what was judged and accepted; "" if nothing is."""
    if not same_input(accepted, todo, table, view):
        return f"The input of {todo.day} changed"
    if accepted.code_version not in ("", table.code_version):
        return f"The code that builds {todo.day} changed"
    return ""


def _by_accepted(work: Work) -> list[Work]:
    """The work by the rules that were accepted for its days, which pass together; those first."""
    by_rules: dict[frozenset[str], dict[date, DayWork]] = {}
    for day, todo in work.days.items():
        by_rules.setdefault(todo.accepted, {})[day] = todo
    return [
        replace(work, days=by_rules[rules]) for rules in sorted(by_rules, key=len, reverse=True)
    ]


def accepted_rules(entry: Entry) -> frozenset[str]:
    """The rules that a manual decision accepted."""
    return frozenset(entry.held_by.split(", "))


def same_input(judged: Entry, todo: DayWork, table: Table, view: LedgerView) -> bool:
    """Whether the input that is planned for a day is the one that an entry was judged by."""
    if table.upstreams:
        return not changed_since(judged, table, view)
    if todo.source is not None:
        before = state_of(judged)
        if todo.source.days is not None:
            return bool(before.get("seen") == todo.seen)
        return is_as_read(todo.source, before)
    files = {(f.path, f.size, f.tag) for f in judged.files}
    return {(f.path, f.size, f.tag) for f in todo.files} == files


def changed_since(judged: Entry, table: Table, view: LedgerView) -> bool:
    """Whether an upstream, or a table that a rule reads, has changed since then."""
    windows = {window.upstream: window.high for window in judged.windows}
    of_rules = [last for name in table.rule_tables if (last := view.table(name).last)]
    # The load read these tables after it began, not when its outcome was recorded or accepted.
    load = view.table(table.name).held.get(judged.day, judged)
    began = load.recorded_at - timedelta(seconds=load.seconds)
    return any(
        upstream.looked_up_changes(judged.day, high)
        if isinstance(read, AsOf)
        else upstream.changes(judged.day, high)
        for read in table.upstreams
        for upstream, high in [(view.table(read.table.name), windows.get(read.table.name, 0))]
    ) or any(entry.recorded_at > began for entry in of_rules)
