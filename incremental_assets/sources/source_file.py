"""A file of a source: what identifies a change of it, and the error where it cannot be read."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from incremental_assets.errors import SourceError
from incremental_assets.storage import StoredFile, open_file, why_unfindable

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file: its path relative to the root that it was listed below.

    `size` in bytes; `modified` in nanoseconds since 1970, or "" where the store has a tag. `tag`
    is the store's own (such as an ETag); a local disk and some stores have none, so there it is a
    digest of the content, and "" until it is asked for. `waits` is why it is not to be read yet.
    """

    path: str
    size: int
    tag: str = ""
    modified: str = ""
    waits: str = field(default="", compare=False)

    @classmethod
    def of(cls, file: StoredFile, folder: str = "", waits: str = "") -> SourceFile:
        """A file that was listed, below a folder of the root."""
        path = f"{folder}/{file.path}" if folder else file.path
        modified = "" if file.tag else str(file.modified or "")
        return cls(path, file.size, file.tag, modified, waits)


def with_content_tag(root: str, file: SourceFile) -> SourceFile:
    """The file with a tag: the store's, or where there is none a digest of its content.

    Raises SourceError if the file is gone or cannot be read.
    """
    if file.tag:
        return file
    digest = hashlib.blake2b(digest_size=16)
    try:
        with open_file(f"{root}/{file.path}") as stream:
            while chunk := stream.read(_CHUNK):
                digest.update(chunk)
    except FileNotFoundError as error:
        raise SourceError(
            f"{file.path} vanished from {root} after it was listed. Nothing was loaded; restore "
            "the file or run again without it."
        ) from error
    except OSError as error:
        raise not_readable(error.filename or root, error) from error
    return replace(file, tag=digest.hexdigest())


def require_findable(root: str, paths: Iterable[str]) -> None:
    """Raise SourceError for a file, relative to the root, that no reader finds by its path."""
    plain = root.isascii() and ":" not in (root.partition("://")[2] or root)
    for path in paths:
        if plain and path.isascii() and ":" not in path:
            continue  # as nearly all of a hundred thousand
        where = f"{root}/{path}"
        why = why_unfindable(where)
        if why:
            shown = where.encode(errors="backslashreplace").decode()
            raise SourceError(f"{shown}: {why}. Nothing was loaded; rename it, and run again.")


def not_readable(where: str, error: OSError) -> SourceError:
    """The error for something that the system does not let us read."""
    if isinstance(error, FileNotFoundError) and Path(where).is_symlink():
        return SourceError(
            f"{where} is a link to a file that is not there. Nothing was loaded; remove the link "
            "or restore the file, and run again."
        )
    if error.errno == errno.EINVAL:
        return SourceError(
            f"{where} cannot be read: {error.strerror}. Nothing was loaded; remove it, and run "
            "again."
        )
    return SourceError(
        f"{where} cannot be read: {error.strerror or error}. Nothing was loaded; give this user "
        "the right to read it, or correct the path, and run again."
    )
