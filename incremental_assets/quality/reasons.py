"""Why each row is quarantined: the reasons of the structural checks and of the rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incremental_assets.errors import DefinitionError
from incremental_assets.quality.contract import UNDECLARED
from incremental_assets.quality.rule import (
    HELPER,
    LINE,
    UNREADABLE,
    RowRule,
    Rule,
    Scope,
)

_BROKEN, _UNREADABLE = f"{HELPER}broken_", f"{HELPER}unreadable_"  # no rule is called so
# Nearly every row is good, and none of its columns needs to be looked into. What cannot be read is
# null as well; one reason is enough for that. As one text it is one call to the JVM.
_REASONS = f"""
    CASE WHEN size({_BROKEN}) = 0 AND coalesce(size({_UNREADABLE}), 0) = 0 THEN {_BROKEN}
    ELSE concat(
        array_except({_BROKEN}, concat(
            transform({_UNREADABLE}, name -> concat(name, '_not_null')),
            transform({_UNREADABLE}, name -> concat(name, '_null')),
            array(CAST(NULL AS STRING)))),
        transform({_UNREADABLE}, name -> concat(name, '_unreadable')))
    END"""


def prepared(rows: DataFrame, rules: Sequence[Rule], scope: Scope) -> DataFrame:
    """Add the columns `_rule_…` of the rules that read more than one row."""
    for rule in rules:
        if isinstance(rule, RowRule) and rule.prepare is not None:
            with naming(rule):
                rows = rule.prepare(rows, scope)
    return rows


@contextmanager
def naming(rule: Rule) -> Iterator[None]:
    """An error of Spark about a rule becomes one that names the rule."""
    try:
        yield
    except AnalysisException as error:
        raise _wrong(rule, error) from error


@contextmanager
def naming_one(rows: DataFrame, rules: Sequence[Rule]) -> Iterator[None]:
    """Where Spark refuses the rules together, the first that does not fit the rows is named."""
    try:
        yield
    except AnalysisException:
        _try_each(rows, rules)
        raise


def _try_each(rows: DataFrame, rules: Sequence[Rule]) -> None:
    for rule in rules:
        columns = [rule.condition] if isinstance(rule, RowRule) else list(rule.measures.values())
        for column in columns:
            with naming(rule):
                _ = (rows.where if isinstance(rule, RowRule) else rows.agg)(column()).schema


def _wrong(rule: Rule, error: AnalysisException) -> DefinitionError:
    why = str(error).partition("\n")[0]
    return DefinitionError(
        f"Rule {rule.name} does not fit the table: {why}. Correct the rule; nothing was published."
    )


def is_good() -> Column:
    """A row that nothing quarantines."""
    return F.expr("size(_reasons) = 0")


def with_reasons(
    rows: DataFrame,
    rules: Sequence[Rule],
    structural: Sequence[Column],
    unread: Column | None = None,
    live: Column | None = None,
    unreadable: Column | None = None,
) -> DataFrame:
    """Add `_reasons: array<string>`: why a row is to be quarantined; empty for a good one.

    `structural` are columns that hold a reason or null. Row rules with severity `quarantine`
    add their names, where a row is `live` (None: every row is); a line that is `unread`, by default
    one that is no JSON object, breaks no further rule. `unreadable` are the names of the columns
    whose value has to fit and does not, by default all in `_unreadable`. Rows are `prepared`.
    Raises DefinitionError for a rule that does not fit them.
    """
    with naming_one(rows, rules):
        return _with_reasons(rows, rules, structural, unread, live, unreadable)


def _with_reasons(
    rows: DataFrame,
    rules: Sequence[Rule],
    structural: Sequence[Column],
    unread: Column | None,
    live: Column | None,
    unreadable: Column | None,
) -> DataFrame:
    own = [
        (rule.name, _breaks(rule, live))
        for rule in rules
        if isinstance(rule, RowRule) and rule.severity == "quarantine"
    ]
    no_object = F.col(UNDECLARED).isNull() if unread is None else unread
    reasons = F.when(no_object, F.array(F.lit(LINE))).otherwise(F.expr(_REASONS))
    breaks_any = [*(reason.isNotNull() for reason in structural), *(breaks for _, breaks in own)]
    names = F.array(*structural, *(F.when(breaks, F.lit(name)) for name, breaks in own))
    none = F.expr("CAST(array() AS ARRAY<STRING>)")
    if breaks_any:
        # Not one `or` in the other: a few hundred are too deep for Spark.
        is_broken = F.greatest(*breaks_any) if len(breaks_any) > 1 else breaks_any[0]
        names = F.when(is_broken, names.cast("array<string>")).otherwise(none)
    # Of a line that is no object, no rule is asked: its condition may fail on nulls.
    broken = F.when(~no_object, names.cast("array<string>"))
    misfits = F.col(UNREADABLE) if unreadable is None else unreadable
    rows = rows.withColumns({_BROKEN: broken, _UNREADABLE: misfits})
    return rows.withColumn("_reasons", reasons).drop(_BROKEN, _UNREADABLE)


def _breaks(rule: RowRule, live: Column | None) -> Column:
    broken = ~F.coalesce(rule.condition(), F.lit(False))
    return broken if live is None else broken & live
