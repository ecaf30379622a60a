"""Digests of loaded files whose modification time is another one and whose content is the same.

A landing that was copied or restored has such files, and the ledger knows them by the former time.
Their digests are stored in the lake, so that a file is read once, and not by each plan. What is
stored is a cache: without it, or where somebody else wrote it meanwhile, files are read again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from incremental_assets.ledger.entry import FileEntry
from incremental_assets.locations import local_path
from incremental_assets.settings import Settings
from incremental_assets.sources.source_file import SourceFile, with_content_tag
from incremental_assets.storage import open_file, write_file

MOST = 100_000
"""The files of a table that are remembered, the newest ones: a few megabytes."""
_StoredDigest = tuple[int, str, str]
"""A file's size, modification time and digest."""


class Digests:
    """The digests of one table's files below the landing root."""

    def __init__(self, settings: Settings, table: str) -> None:
        self._landing = settings.landing
        of_landing = hashlib.blake2b(settings.landing.encode(), digest_size=4).hexdigest()
        name = f"{table.replace('/', '_')}-{of_landing}.json"
        self._path = f"{settings.lake}/_digests/{name}"
        self._found: dict[str, _StoredDigest] = {}

    def tagged(self, loaded: Mapping[str, FileEntry], file: SourceFile) -> SourceFile:
        """The file with its tag, as `with_content_tag` gives it; `loaded` are files by path.

        Raises SourceError if the file is gone or cannot be read.
        """
        before = loaded.get(file.path)
        if file.tag or not file.modified or before is None:
            return with_content_tag(self._landing, file)
        size, modified, tag = self._stored.get(file.path, (0, "", ""))
        if (size, modified) == (file.size, file.modified):
            return replace(file, tag=tag)
        tagged = with_content_tag(self._landing, file)
        if (tagged.size, tagged.tag) == (before.size, before.tag):
            self._found[file.path] = file.size, file.modified, tagged.tag
        return tagged

    def store(self) -> None:
        """Store what was found, if anything was; a lake that cannot be written has no cache."""
        if not self._found:
            return
        others = {path: known for path, known in self._stored.items() if path not in self._found}
        newest = list((others | self._found).items())[-MOST:]
        try:
            local = local_path(self._path)
            if local is not None:
                Path(local).parent.mkdir(parents=True, exist_ok=True)
            write_file(self._path, json.dumps(dict(newest)).encode())
        except OSError:
            return

    @cached_property
    def _stored(self) -> Mapping[str, _StoredDigest]:
        try:
            with open_file(self._path) as stream:
                found = json.load(stream)
            return {path: (int(size), str(at), str(tag)) for path, (size, at, tag) in found.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}
