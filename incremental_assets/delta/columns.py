"""The names of the columns that a load adds, and of those that it works with on the way."""

from __future__ import annotations

BATCH, TABLE = "_batch", "_table"
# A change's position in the order of its key: the cursor or log position, and the number within.
ORDER, WITHIN, HASH = "_order", "_within", "_hash"
CHANGED_AT = "_changed_at"
DELETED, WHY = "_deleted", "_why"
OPERATION, REASONS = "_operation", "_reasons"
LINEAGE = ("_landing_day", "_file")
# The columns that an event did not have: which, and the position of the change their value is from.
PARTIAL, LACKS = "_partial", "_lacks"

_RESERVED = frozenset(
    {ORDER, WITHIN, HASH, BATCH, TABLE, CHANGED_AT, DELETED, WHY, OPERATION, REASONS, *LINEAGE}
    | {PARTIAL, LACKS, "_is_whole", "_is_there", "_no_earlier", "_known_version", "_latest_known"}
    | {"_is_decided", "_entry", "_message"}
    | {"_raw", "_unreadable", "_known", "_copy", "_metadata", "_nth", "_times", "_line", "_at"}
    # What changes are detected and replaced by.
    | {"_all", "_change", "_event", "_key", "_op_word", "_position", "_position_kind", "_reason"}
    | {"_row", "_snapshot", "_truncate", "_truncated_at", "_marker", "_there", "_first", "_last"}
    | {"_payload", "_undeclared", "_absent", "_names", "_texts", "_details"}
    | {"_landed", "_load_day", "_written", "_quarantined", "_is_chosen", "_in_scope"}
    # What is written to a table.
    | {"_after_row", "_conflict", "_counts", "_ended", "_ends", "_in_conflict", "_in_side"}
    | {"_in_table", "_later", "_rank", "_repeat", "_same", "_shown", "_side", "_since", "_starts"}
    | {"_state", "_to_delete", "_until", "_visible", "_void", "_wins", "_first_hash", "_left_out"}
    | {"_c", "_k", "_new", "_tried", "_fresh", "_day", "_from", "_to", "_standing"}
)
_FAMILIES = (
    *("_apart_", "_before_", "_changed_", "_dbz_", "_is_among_", "_key_"),
    *("_of_", "_old", "_replaced_", "_rule_", "_v_", "_was_"),
)


def is_reserved(name: str) -> bool:
    """Whether loads use a name for columns of their own: no source may have one of that name.

    Others that begin with `_`, such as MongoDB's `_id`, are a source's own.
    """
    folded = name.lower()
    return folded in _RESERVED or folded.startswith(_FAMILIES)
