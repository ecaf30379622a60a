"""The files that a page of the documentation shows: a name in back quotes, and a block of Python."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from incremental_assets.settings import PROJECT_ROOT

# The name that is nearest to the block.
_FILE = re.compile(r"`(\S+\.py)`(?:(?!`\S+\.py`|^```|^#).)*?^```python\n(.*?)^```$", re.M | re.S)


def written(page: str, folder: Path) -> Sequence[Path]:
    """Write the files of `docs/<page>.md` below a folder, as a reader would; their paths."""
    text = (PROJECT_ROOT / "docs" / f"{page}.md").read_text("utf-8")
    paths = []
    for name, code in _FILE.findall(text):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code, encoding="utf-8")
        paths.append(path)
    return paths
