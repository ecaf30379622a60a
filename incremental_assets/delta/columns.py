"""The names of the columns that a load adds, and of those that it works with on the way."""

from __future__ import annotations

BATCH, TABLE = "_batch", "_table"
# A change's position in the order of its key: the cursor or log position, and the number within.
ORDER, WITHIN, HASH = "_order", "_within", "_hash"
CHANGED_AT = "_changed_at"
DELETED, WHY = "_deleted", "_why"
OPERATION, REASONS = "_operation", "_reasons"
LINEAGE = ("_landing_day", "_file")

RESERVED = frozenset(
    {ORDER, WITHIN, HASH, BATCH, TABLE, CHANGED_AT, DELETED, WHY, REASONS}
    | {"_file", "_raw", "_unreadable", "_known", "_copy"}
)
"""No source that a loader reads may have a column of such a name."""
