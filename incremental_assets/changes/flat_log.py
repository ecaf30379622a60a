"""A flat change log: which of its columns are the log's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from incremental_assets.changes.operations import Operation


class FlatLog(Protocol):
    """The columns `operation` and `sequence` of a log, the words of its operations, and `time`.

    `time` names the field with the moment of a row's change; "" for none. `deleted` names the
    column that marks a row as deleted, in the place of operations; "" for none.
    """

    @property
    def operation(self) -> str: ...
    @property
    def sequence(self) -> str: ...
    @property
    def operations(self) -> Mapping[str, Operation]: ...
    @property
    def time(self) -> str: ...
    @property
    def deleted(self) -> str: ...
