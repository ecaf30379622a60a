"""Details of unreadable values: the field, its declared type, and the value."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incremental_assets.quality.contract import PAYLOAD, Contract
from incremental_assets.quality.rule import LINE, UNREADABLE

DETAILS = "_details"
_LONGEST = 40
_TWICE = "a name occurs twice in one object, so it is undefined which value is right"
_FOLLOWED = "something follows the first JSON value of the line, which must be its only one"
_HALF_A_SURROGATE = r"\\u[dD][89a-fA-F]"
_CUT = "the line is no JSON object, or of a CSV with more or fewer fields than its header"


def with_details(rows: DataFrame, contract: Contract) -> DataFrame:
    """Add `_details: array<string>`: one for each reason of an unreadable value or line.

    Takes `_reasons`, `_line` and the fields that the contract read. For rows that are quarantined
    only: the values are looked up by name, which costs more than the gate itself does.
    """
    unread = F.filter("_reasons", lambda reason: reason.endswith(UNREADABLE))
    kinds = [part for n, t in contract.columns.items() for part in (F.lit(n), F.lit(t.sql))]
    types = F.create_map(*kinds) if kinds else F.lit(None).cast("map<string,string>")

    fields = F.col(PAYLOAD).try_cast("map<string,variant>")

    def detail(reason: Column) -> Column:
        field = F.regexp_replace(reason, f"{UNREADABLE}$", "")
        text = F.to_json(F.try_element_at(fields, field))
        others = F.array_join(F.filter(F.map_keys(fields), _differs_in_case_from(field)), ", ")
        only_case = F.concat(field, F.lit(": is there as "), others, F.lit(", in another case"))
        more = F.when(F.length(text) > _LONGEST, "…").otherwise("")
        value = F.concat(F.substring(text, 1, _LONGEST), more)
        unfit = F.concat(
            field, F.lit(": "), value, F.lit(" is no "), F.try_element_at(types, field)
        )
        is_named_so = (F.coalesce(text, F.lit("null")) == "null") & (others != "")
        return F.when(reason == LINE, _of_line()).when(is_named_so, only_case).otherwise(unfit)

    details = F.filter(F.transform(unread, detail), lambda text: text.isNotNull())
    return rows.withColumn(DETAILS, details)


def _differs_in_case_from(field: Column) -> Callable[[Column], Column]:
    return lambda name: (F.lower(name) == F.lower(field)) & (name != field)


def _of_line() -> Column:
    """Why a line is not one JSON object, as far as Spark's own parsers show it.

    `try_parse_json` reads the first value and drops what follows; a name that is repeated makes it
    fail. `get_json_object` goes on, and writes the value that it read: without what follows, with
    double quotes, and without what is no JSON value (`NaN`).
    """
    line = F.col("_line")
    begins_with_object = F.ltrim(line).startswith("{") & F.try_parse_json(line).isNotNull()
    written = F.get_json_object(line, "$")
    is_repeated = F.try_parse_json(written).isNull() & ~written.rlike(_HALF_A_SURROGATE)
    return (
        F.when(begins_with_object, _FOLLOWED)
        .when(written.isNotNull() & is_repeated, _TWICE)
        .otherwise(_CUT)
    )
