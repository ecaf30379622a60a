"""The landing root: whether it is there, and why something below it cannot be listed or read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from incremental_assets.errors import SourceError
from incremental_assets.locations import local_path
from incremental_assets.sources.source_file import SourceFile, not_readable
from incremental_assets.storage import open_store


@contextmanager
def listing(landing: str) -> Iterator[None]:
    """Raises SourceError where something in the landing cannot be listed."""
    try:
        yield
    except OSError as error:
        raise not_readable(error.filename or landing, error) from error


def missing_or_changed(landing: str, files: list[SourceFile]) -> list[SourceFile]:
    """Which of the files are missing, or have another size than when they were listed.

    To explain why a read failed.
    """
    root = local_path(landing)
    if root is None:
        store, path = open_store(landing)
        return [f for f in files if not store.exists(f"{path}/{f.path}")]
    missing = []
    for file in files:
        try:
            if (root / file.path).stat().st_size != file.size:
                missing.append(file)
        except OSError:
            missing.append(file)
    return missing


def require_root(landing: str) -> None:
    """Raise SourceError if the landing root is not there."""
    root = local_path(landing)
    if root is None:
        return
    try:
        there, a_folder = root.exists(), root.is_dir()
    except OSError as error:
        raise not_readable(error.filename or landing, error) from error
    if not a_folder:
        what = "is not a folder" if there else "does not exist"
        raise SourceError(
            f"The landing root {root} {what}. Set INCREMENTAL_ASSETS_LANDING to the folder that "
            "holds the feeds, or land the demo feed with `incremental-assets demo land --from "
            "2017-01-01 --to 2017-01-07`."
        )
