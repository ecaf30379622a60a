"""Source inspection: whether there is anything new, without reading rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from incremental_assets.changes.position import FINGERPRINT, Position
from incremental_assets.changes.request import ReadRequest
from incremental_assets.plurals import counted

SourceStatus = Literal["new", "unknown", "nothing"]


@dataclass(frozen=True, slots=True)
class Inspection:
    """What a source inspection found, compared with what the last load read.

    `status` is `unknown` until the source is read. `files` are those of a log that will be read.
    """

    status: SourceStatus
    why: str
    files: tuple[str, ...] = ()


def inspect_by_fingerprint(request: ReadRequest, before: Position) -> Inspection:
    """Nothing is new in a source that is as the last load read it; of any other it is unknown."""
    source, last = request.source, request.state.last
    if source.is_missing:
        return Inspection("nothing", f"the source {source.path} holds no file")
    if last is None:
        return Inspection("new", "it was never loaded")
    if last.kind == "rewind":
        back = f"to {last.high}" if last.high else "to before its first load"
        return Inspection("new", f"it was rewound {back} by {last.who}: {last.why}")
    seen = before.state.get(FINGERPRINT)
    if seen == source.fingerprint and request.max_records is None:
        return Inspection("nothing", f"the source is as batch {last.batch} read it")
    if seen is None:
        why = f"batch {last.batch} did not note that it had read all of the source"
    elif seen != source.fingerprint:
        why = f"the source has changed since batch {last.batch}; reading it shows what is new"
    else:
        most = counted(request.max_records or 0, "row")
        why = f"a load takes {most} at most, and there may be more"
    return Inspection("unknown", why)
