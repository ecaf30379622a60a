"""Lakes that several tests begin with: each is made once, and copied for each test."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Hashable
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from incremental_assets.settings import Settings

Made = TypeVar("Made")


class MadeOnce:
    """Keeps what was made, in a folder of its own: no test changes it."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._number = folder, count()
        self._made: dict[Hashable, tuple[Settings, Any]] = {}

    def copied(self, key: Hashable, settings: Settings, make: Callable[[Settings], Made]) -> Made:
        """Copy lake and landing of what `make` returned for other settings to those of a test."""
        if key not in self._made:
            folder = self._folder / str(next(self._number))
            own = settings.replace(lake=str(folder / "lake"), landing=str(folder / "landing"))
            Path(own.landing).mkdir(parents=True)
            self._made[key] = own, make(own)
        own, made = self._made[key]
        shutil.copytree(own.lake, settings.lake)
        shutil.copytree(own.landing, settings.landing, dirs_exist_ok=True)
        return made
