"""A flat change log: which of its columns are the log's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from incremental_assets.changes.operations import Operation
from incremental_assets.changes.unchanged import NoEarlier, Unchanged


class FlatLog(Protocol):
    """The columns `operation` and `sequence` of a log, the words of its operations, and `time`.

    `time` names the field with the moment of a row's change; "" for none. `deleted` names the
    column that marks a row as deleted, in the place of operations; "" for none. `unchanged` are the
    fields of an update that did not change, `placeholder` marks them, and `no_earlier` is what
    happens where no earlier version has them.
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
    @property
    def unchanged(self) -> Unchanged: ...
    @property
    def no_earlier(self) -> NoEarlier: ...
    @property
    def placeholder(self) -> str: ...
    @property
    def may_lack_fields(self) -> bool: ...
