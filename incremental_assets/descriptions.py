"""What the columns of a table hold, in a sentence: for Dagster, and for comments in a catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from incremental_assets.delta.delta_table import columns_of
from incremental_assets.lineage import Origin, lineage_of
from incremental_assets.table import Table

LONGEST_COMMENT = 4_000  # delta-rs takes no longer description of a table
Origins = Mapping[str, Sequence[Origin]]

# Columns that the load itself adds.
_OWN = {
    "_batch": "The batch that last wrote the row.",
    "_landing_day": "The UTC day on which the row landed.",
    "_day": "The day whose silver partition judges the row: its business day, if that is in time.",
    "_file": "The landed file, below the landing root.",
    "payload": "The row as it landed: any JSON, or an object of its columns.",
    "_raw": "The line as it landed, if it could not be read; bytes in base64.",
    "_hash": "A hash of the row's own fields, which decides between otherwise equal versions.",
    "dt": "The UTC day of the partition.",
    "valid_from": "When this version became valid.",
    "valid_to": "When this version ended, exclusive; null: it is current.",
    "is_current": "Whether this version is current.",
}


def comment_of(text: str) -> str:
    """A description as a comment: in one line, for catalogs print comments among what they know."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_COMMENT else f"{line[: LONGEST_COMMENT - 1]}…"


def origins_of(table: Table, columns: Sequence[str], lake: str) -> Origins:
    """The columns of the upstreams, as they are now, that each column is made of; not of bronze."""
    return lineage_of(table, columns, lambda upstream: columns_of(f"{lake}/{upstream.name}"))


def column_description(table: Table, name: str, origins: Sequence[Origin] = ()) -> str:
    """The description, and the origins: neither the UI nor a catalog draws those of columns."""
    declared = table.schema.columns.get(name) if table.schema is not None else None
    described = declared.description if declared is not None else _OWN.get(name, "")
    # What bronze types comes out of the payload, all of it.
    made_of = "" if table.is_typed else ", ".join(f"{o.table}.{o.column}" for o in origins)
    return " ".join(filter(None, (described, made_of and f"From {made_of}.")))


def column_descriptions(table: Table, columns: Sequence[str], lake: str) -> Mapping[str, str]:
    """The same of all columns of a table of the lake; without an entry where there is none."""
    origins = {} if table.is_typed else origins_of(table, columns, lake)
    found = {name: column_description(table, name, origins.get(name, ())) for name in columns}
    return {name: text for name, text in found.items() if text}
