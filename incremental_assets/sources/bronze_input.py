"""What a bronze table reads, as far as nobody needs to know which kind of it that is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from datetime import date
from typing import ClassVar

from incremental_assets.sources.loaded_files import NOTHING_LOADED, LoadedFiles


class BronzeInput(ABC):
    """A `Feed`, whose files are listed by landing day, or a `Source`, which is fixed whole.

    `day` is the column whose UTC date is a row's landing day; None where another column, the path
    of its file or the load shows it. With `has_landed_paths` the `_file` of a row is a path below
    the landing root, as the ledger has it: it names one file for all tables, whose rows can be
    loaded again and retracted by it. With `keeps_past` what was delivered before stays to be read
    again, also where the detector compares states and would find the present one alone.
    """

    __slots__ = ()

    day: str | None = None
    has_landed_paths: ClassVar[bool] = False
    keeps_past: ClassVar[bool] = False

    @property
    def bronze_columns(self) -> tuple[tuple[str, str], ...]:
        """The columns, with their types, that its rows add to those of a bronze table."""
        return ()

    @abstractmethod
    def path_in(self, landing: str) -> str:
        """The path that it is read from, for this landing root."""

    def landed_days(
        self, landing: str, loaded: LoadedFiles = NOTHING_LOADED
    ) -> Sequence[date] | None:
        """The landing days of what is there; None where the rows alone show their days.

        Raises SourceError if the landing root is missing.
        """
        return None

    def watermark_by_days(self, days: Collection[date]) -> str:
        """How far it was read, by the days that were loaded; "" where they do not show that."""
        return ""

    def remove_leftovers(self, lake: str, table: str) -> None:  # noqa: B027 - most leave nothing
        """Remove what killed batches of a table left below the lake; the table's lock is held."""
