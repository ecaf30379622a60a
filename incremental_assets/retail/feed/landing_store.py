"""Where the demo's files go: each folder or file appears whole, once, or not at all."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from incremental_assets.errors import DemoFeedError

_UNFINISHED: Final = re.compile(r"\.[\d-]{10}(?:\.parquet)?\.(\d+)\.tmp")
WHOLE: Final = ""
"""The name of the content of a path that is one file."""


class LandingStore(Protocol):
    """Where files go, below a root; a path is that of a folder of files, or of one file."""

    def holds(self, path: str, /) -> bool:
        """Whether the path is whole, so that nothing has to be made for it."""

    def put(self, path: str, content: Mapping[str, bytes], /) -> int:
        """Write the files by name and return how many; 0 where they are there already.

        The name `WHOLE` is that of the path itself.
        """

    def replace(self, path: str, content: Mapping[str, bytes], /) -> None:
        """Write the files of a folder by name, in place of those that are there."""


def open_landing(landing: str) -> LandingStore:
    """The local folder or store that a landing names. Raises DemoFeedError for another."""
    try:
        store, root = url_to_fs(landing)
    except (ImportError, ValueError) as error:
        msg = f"Cannot write the demo feed to {landing}: {error}. Give a folder or an fsspec URI."
        raise DemoFeedError(msg) from error
    if not isinstance(store, LocalFileSystem):
        return _Store(store, root)
    disk = _LocalDisk(Path(root))
    disk.sweep()
    return disk


@dataclass(frozen=True)
class _LocalDisk:
    """A folder or file is written under a hidden name in the same folder, then renamed."""

    root: Path

    def sweep(self) -> None:
        """Remove what killed runs left; a run that is still alive keeps its own."""
        for left in self.root.glob("*/.*.tmp"):
            owner = _UNFINISHED.fullmatch(left.name)
            if owner and not _is_another_run(int(owner[1])):
                _remove(left)

    def holds(self, path: str) -> bool:
        return (self.root / path).exists()

    def put(self, path: str, content: Mapping[str, bytes]) -> int:
        target = self.root / path
        unfinished = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        unfinished.parent.mkdir(parents=True, exist_ok=True)
        if WHOLE in content:
            unfinished.write_bytes(content[WHOLE])
        else:
            unfinished.mkdir()
            for name, lines in content.items():
                (unfinished / name).write_bytes(lines)
        try:
            unfinished.rename(target)
        except OSError:
            _remove(unfinished)
            if target.is_dir():  # another run was first, with the same bytes
                return 0
            raise
        return len(content)

    def replace(self, path: str, content: Mapping[str, bytes]) -> None:
        folder = self.root / path
        folder.mkdir(parents=True, exist_ok=True)
        for name, lines in content.items():
            unfinished = folder / f".{name}.{os.getpid()}.tmp"
            unfinished.write_bytes(lines)
            unfinished.replace(folder / name)


@dataclass(frozen=True)
class _Store:
    """An object store has no rename, but a file appears whole: those that are missing are put."""

    store: Any
    root: str

    def holds(self, path: str, /) -> bool:
        return path.endswith(".parquet") and bool(self.store.exists(self._of(path)))

    def put(self, path: str, content: Mapping[str, bytes]) -> int:
        named = {f"{path}/{name}" if name else path: data for name, data in content.items()}
        missing = [name for name in named if not self.store.exists(self._of(name))]
        for name in missing:
            self.store.pipe_file(self._of(name), named[name])
        return len(missing)

    def replace(self, path: str, content: Mapping[str, bytes]) -> None:
        for name, data in content.items():
            self.store.pipe_file(self._of(f"{path}/{name}"), data)

    def _of(self, path: str) -> str:
        return f"{self.root.rstrip('/')}/{path}"


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _is_another_run(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return process != os.getpid()
