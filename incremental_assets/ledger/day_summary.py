"""A day of a table, summarized in numbers of batches, and the fingerprint of its files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from incremental_assets.file_identity import MODULUS

FIRSTS = ("first", "first_touched", "first_affected")
LASTS = (
    "last",
    "last_touched",
    "last_affected",
    "published",
    "loaded",
    "held",
    "accepted",
    "rewound",
    "quarantined",
)
NUMBERS = (*FIRSTS, *LASTS, "committed", "rebuilt", "files")


@dataclass(frozen=True, slots=True)
class DaySummary:
    """A day in numbers of batches, 0 where there is none.

    `first` and `last` bound the outcomes for the day, `touched` those that changed its rows and
    `affected` those that it looks up. The others are the last of their kind: `committed` for it (a
    rewind counts), `published` (a rewind does not), `loaded` (nor does a retraction), `held`,
    `accepted`, `rewound`, `quarantined` (it quarantined rows, or was abandoned or dropped), and
    `rebuilt` or restated. `files` is the fingerprint of all files that were loaded for it,
    `position` that of the change detector, `read` the watermark by upstream, `codes` the code
    versions that made it since it was rebuilt.
    """

    first: int = 0
    last: int = 0
    first_touched: int = 0
    last_touched: int = 0
    first_affected: int = 0
    last_affected: int = 0
    committed: int = 0
    published: int = 0
    loaded: int = 0
    held: int = 0
    accepted: int = 0
    rewound: int = 0
    quarantined: int = 0
    rebuilt: int = 0
    files: int = 0
    position: str = ""
    read: Mapping[str, int] = field(default_factory=dict)
    codes: tuple[str, ...] = ()

    def followed_by(self, later: DaySummary) -> DaySummary:
        """The summary together with that of later batches."""
        replaced = later.rebuilt > self.rebuilt
        lasts = {name: max(getattr(self, name), getattr(later, name)) for name in LASTS}
        return DaySummary(
            **{name: _lower(getattr(self, name), getattr(later, name)) for name in FIRSTS},
            **lasts,
            committed=max(self.committed, later.committed),
            rebuilt=max(self.rebuilt, later.rebuilt),
            files=(self.files + later.files) % MODULUS,
            position=(later if later.committed > self.committed else self).position,
            read=(later if later.committed > self.committed else self).read,
            codes=tuple(sorted({*later.codes, *(() if replaced else self.codes)})),
        )


def _lower(one: int, other: int) -> int:
    return min(one, other) if one and other else one or other


NO_SUMMARY = DaySummary()
