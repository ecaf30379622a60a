"""What identifies a file of a source, and a number that stands for many of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Protocol

MODULUS = 2**60


class FileLike(Protocol):
    """What identifies a file: path, size in bytes, the store's tag, a modification time."""

    @property
    def path(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def tag(self) -> str: ...
    @property
    def modified(self) -> str: ...


def is_as_listed(file: FileLike, before: FileLike) -> bool:
    """Whether a file is the one of before, as far as its listing shows."""
    if file.size != before.size:
        return False
    if file.tag:
        return file.tag == before.tag
    # Where the store has neither a tag nor a time, only the content can be compared.
    return file.modified != "" and file.modified == before.modified


def fingerprint(files: Iterable[FileLike]) -> int:
    """A number for files as they are. It does not depend on their order: batches can be added up.

    A file on a disk counts by when it was modified, which is known without reading it.
    """
    return sum(file_fingerprint(f.path, f.size, f.tag, f.modified) for f in files) % MODULUS


def file_fingerprint(path: str, size: int, tag: str, modified: str) -> int:
    """A number for a file: by when it was modified on a disk, by its tag in an object store."""
    text = f"{path}\0{size}\0{f'modified {modified}' if modified else f'tag {tag}'}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) % MODULUS
