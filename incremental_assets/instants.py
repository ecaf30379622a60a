"""How an instant is written as text, and read: strictly, and the same in every feed."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

# ISO 8601 calendar dates and times, extended or basic, with an optional offset.
_TIMESTAMP = (
    r"^(\d{4})-?(\d{2})-?(\d{2})"
    r"(?:[Tt ](\d{2}):?(\d{2})(?::?(\d{2})(?:[.,](\d{1,9}))?)?)?"
    r"\s*(?:([Zz]|UTC)|([+-]\d{2})(?::?(\d{2}))?)?$"
)
# What almost every feed writes; the cast reads it as it stands, without taking it apart.
_PLAIN_TIMESTAMP = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,6})?(?:Z|[+-]\d{2}:\d{2})$"


def instant(text: Column) -> Column:
    """Text in ISO 8601 as a timestamp, UTC unless an offset is given; null where it is not.

    Only complete dates are read: Spark's own cast would take a bare year, or a bare time as a
    time of *today*.
    """
    trimmed = F.trim(text)
    # Extended form; what is missing leaves `T::` behind, and two more replacements fill it in.
    extended = F.regexp_replace(trimmed, _TIMESTAMP, "$1-$2-$3T$4:$5:$6.$7|$8$9:$10")
    filled = F.regexp_replace(F.regexp_replace(extended, "T::", "T00:00:"), r":\.", ":00.")
    fraction = F.regexp_replace(filled, r"(\.\d{0,6})\d*\|", "$1|")
    zone = F.regexp_replace(fraction, r"\|([+-]\d{2}):$", "|$1:00")
    plain = F.regexp_replace(F.regexp_replace(zone, r"\|([Zz]|UTC)?:$", "Z"), r"\.?\|", "")
    return F.when(text.rlike(_PLAIN_TIMESTAMP), text.try_cast("timestamp")).when(
        trimmed.rlike(_TIMESTAMP), plain.try_cast("timestamp")
    )
