"""Settings of Spark as a file of Java's properties, which may hold secrets."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path


def as_properties(conf: Mapping[str, str]) -> str:
    """Settings as the text of such a file."""
    return "".join(f"{_escaped(name)}={_escaped(value)}\n" for name, value in conf.items())


def text_of(path: Path) -> str:
    """The text of somebody's own file, to be followed by more; "" if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8") + "\n"
    except OSError:
        return ""


def write_privately(path: Path, text: str) -> None:
    """Make a file that nobody else can read at any time."""
    opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(opened, "w", encoding="utf-8") as file:
        file.write(text)


def _escaped(text: str) -> str:
    """Text in which nothing means anything to the reader of such a file."""
    plain = re.sub(r"[\\ =:#!]", r"\\\g<0>", text)
    return plain.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
