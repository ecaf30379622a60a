"""Judging the counts of the gate: the result of each rule for a day."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from incremental_assets.errors import GateError
from incremental_assets.plurals import counted
from incremental_assets.quality.contract import Contract
from incremental_assets.quality.examples import Examples
from incremental_assets.quality.fields import MOST_NEW_FIELDS
from incremental_assets.quality.gate import (
    DECLARED,
    FIT,
    IN_TIME,
    PRESENT,
    READABLE,
    Counted,
    DayGate,
)
from incremental_assets.quality.rule import (
    APART,
    DayCounts,
    DayRule,
    RowRule,
    Rule,
    Severity,
    Verdict,
)

MOST_NAMED = 20


@dataclass(frozen=True, slots=True)
class RuleResult:
    """What one rule found on one day: numbers, so that its history can be plotted, and examples.

    `rows` is what was judged, `broken` how many rows broke a row rule, and `examples` are the keys
    of a few of these, never whole rows.
    """

    rule: str
    severity: Severity
    passed: bool
    found: str
    value: float
    threshold: float
    rows: int = 0
    broken: int = 0
    examples: tuple[str, ...] = ()


def failing(results: Iterable[RuleResult]) -> list[RuleResult]:
    """The results that hold what was judged."""
    return [result for result in results if result.severity == "fail" and not result.passed]


def require_passed(name: str, results: Iterable[RuleResult]) -> None:
    """Raise GateError where a rule that holds a load, or a replay, is broken."""
    failed = failing(results)
    if failed:
        raise GateError(
            f"{name}: held back by {'; '.join(map(in_words, failed))}. Nothing was published, "
            "nothing left quarantine and no watermark moved; correct the rows or the rule, and try "
            "again."
        )


def in_words(result: RuleResult) -> str:
    """What a rule found, with examples."""
    such = f", such as {'; '.join(result.examples)}" if result.examples else ""
    return f"{result.rule}: {result.found}{such}"


def judge_rows(gate: DayGate, rules: Sequence[Rule], counted: Counted) -> list[RuleResult]:
    """The result of each row rule, and of the rules of every typed table."""
    in_time = sum(gate.reasons.get(reason, 0) for reason in APART)
    results = [
        _rows_result(READABLE, gate.unreadable, gate.rows),
        _rows_result(IN_TIME, in_time, gate.rows),
    ]
    for rule in rules:
        if isinstance(rule, RowRule):
            by_rule = gate.reasons.get(rule.name, 0)
            bad = counted.broken.get((gate.day, rule.name), by_rule)
            results.append(row_result(rule, bad, gate.rows))
    return results


def judge_fields(
    gate: DayGate, contract: Contract, asked: Iterable[str], columns: Collection[str] = ()
) -> list[RuleResult]:
    """The results of a contract for a day's fields; the `asked` columns have to be in some row.

    `columns` are undeclared ones that the table has.
    """
    results = []
    if contract.freezes_new:
        unknown = contract.refused(gate.fields)
        more = "more than " if gate.more_fields else ""
        found = f"{more}{len(unknown)} fields that nobody declared"
        if unknown:
            named = ", ".join(unknown[:MOST_NAMED])
            found = f"{found}: {named}; declare them or repair the feed"
        results.append(_fields_result(DECLARED, "fail", len(unknown), found, gate))
    if contract.freezes_values:
        misfits = {n: gate.reasons.get(f"{n}_unreadable", 0) for n in contract.freezes_values}
        misfit_texts = [
            f"{count} values of {name} are no {contract.columns[name].sql}"
            for name, count in misfits.items()
            if count
        ]
        found = "; ".join(misfit_texts) or "all values can be read"
        results.append(_fields_result(FIT, "fail", sum(misfits.values()), found, gate))
    missing = contract.missing(gate.fields, asked) if gate.fields else []
    missing += contract.in_other_case(gate.fields, columns)[:MOST_NAMED]
    found = "; ".join(missing) or "no column is missing"
    results.append(_fields_result(PRESENT, "warn", len(missing), found, gate))
    return results


def _fields_result(
    rule: str, severity: Severity, broken: int, found: str, gate: DayGate
) -> RuleResult:
    return RuleResult(rule, severity, not broken, found, broken, 0, gate.rows)


def in_other_case(counted: Counted, contract: Contract, columns: Collection[str] = ()) -> list[str]:
    """Messages about fields that differ from a column only in case; `columns` as above."""
    return [
        f"{gate.day}: {'; '.join(contract.in_other_case(gate.fields, columns)[:MOST_NAMED])}"
        for gate in counted.days.values()
        if contract.in_other_case(gate.fields, columns)
    ]


def not_named(counted: Counted) -> list[str]:
    """Messages about days with more new fields than are read."""
    return [
        f"{gate.day}: the rows have more than {MOST_NEW_FIELDS} fields that nobody declared; the "
        f"first {MOST_NEW_FIELDS} were read, the values of all stay in bronze"
        for gate in counted.days.values()
        if gate.more_fields
    ]


def judge_day(rules: Iterable[Rule], counts: DayCounts) -> list[RuleResult]:
    """The result of each day rule; what is measured, here and elsewhere, is by `rule.measure`."""
    results = []
    for rule in rules:
        if isinstance(rule, DayRule):
            own = {name: counts.measured.get(f"{rule.name}.{name}") for name in rule.measures}
            other = {n: counts.elsewhere.get(f"{rule.name}.{n}") for n in rule.elsewhere}
            verdict = rule.judge(replace(counts, measured=own, elsewhere=other))
            results.append(_day_result(rule, verdict, counts.total_rows))
    return results


def _day_result(rule: DayRule, verdict: Verdict, rows: int) -> RuleResult:
    return RuleResult(
        rule.name,
        rule.severity,
        verdict.passed,
        verdict.found,
        verdict.value,
        verdict.threshold,
        rows,
    )


def _rows_result(rule: str, bad: int, rows: int) -> RuleResult:
    found = f"{bad:,} of {counted(rows, 'row')} failed"
    return RuleResult(rule, "quarantine", bad == 0, found, bad, 0, rows, bad)


def row_result(rule: RowRule, bad: int, rows: int) -> RuleResult:
    """The result of a row rule that `bad` of `rows` rows failed."""
    allowed = [counted(rule.rows_allowed, "row")] if rule.rows_allowed else []
    allowed += [f"{rule.share_allowed:.2%}"] if rule.share_allowed else []
    text = f"{bad:,} of {counted(rows, 'row')} failed"
    if allowed:
        text = f"{text}, {' or '.join(allowed)} may"
    return RuleResult(
        rule.name,
        rule.severity,
        rule.passes(bad, rows),
        text,
        bad,
        max(rule.rows_allowed, rule.share_allowed * rows),
        rows,
        bad,
    )


def judge_target(
    counted: Counted, rules: Sequence[Rule], examples_of: Examples
) -> list[RuleResult]:
    """The result of each rule of a target, whose rows are of no day."""
    gate = counted.whole
    of_rows = [
        replace(
            row_result(
                rule,
                counted.broken.get((None, rule.name), gate.reasons.get(rule.name, 0)),
                gate.rows,
            ),
            examples=examples_of.get((None, rule.name), ()),
        )
        for rule in rules
        if isinstance(rule, RowRule)
    ]
    if not gate.rows:
        return of_rows
    counts = DayCounts(gate.rows, gate.quarantined, gate.rows, gate.quarantined, 1)
    return of_rows + judge_day(rules, counts)
