"""Why a day is held, as one text: the names of the failed rules, then the finding of each.

`quarantined_share, values_fit: 3 of 5 rows …; 2 values of qty are no int`. A finding may quote the
feed, the names of its fields for instance, so nothing after the first colon is read as a rule. In
the older form, `a: …; b: …`, only the first rule is known for certain.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def hold_reason(found: Mapping[str, str]) -> str:
    """The text of the findings, by rule; "" where no rule failed."""
    return f"{', '.join(found)}: {'; '.join(found.values())}" if found else ""


def rules_in(text: str) -> tuple[str, ...]:
    """The names of the rules in a hold reason; none where it does not begin with names."""
    names, colon, _ = text.partition(": ")
    rules = tuple(names.split(", "))
    return rules if colon and all(map(_NAME.fullmatch, rules)) else ()
