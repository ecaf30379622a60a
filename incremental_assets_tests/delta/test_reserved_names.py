"""The names that loads use for columns of their own are refused in a source, whichever they are."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

import incremental_assets
from incremental_assets.delta.columns import is_reserved
from incremental_assets.settings import PROJECT_ROOT

# What a loader runs through; tables of a lake take the names that their contract allows.
FOLDERS = ("changes", "delta", "quality", "sources", "writes")
NAME = re.compile(r"(?<![A-Za-z0-9_$/{.<-])_[a-z][a-z_0-9]*")
# Ends of rules' and reasons' names, and folders; not columns.
OTHERS = {
    *("_at_least_", "_between", "_distinct_count", "_in_", "_in_future", "_is_among_value"),
    *("_matches", "_not_in_future", "_not_null", "_null", "_null_share", "_one_of", "_unique"),
    *(
        "_delta_log",
        "_temporary",
        "_unpacked",
        "_whole_from",
        "_expired_before",
        "_ms",
        "_ns",
        "_us",
        "_empty",
        "_a",
    ),
    "_pb2",  # the names of modules that Protobuf generates
    "_id",  # MongoDB's, as a field of a document
}


def names() -> Iterator[str]:
    package = PROJECT_ROOT / incremental_assets.__name__
    for file in (file for folder in FOLDERS for file in (package / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield from NAME.findall(node.value)


def test_each_name_that_the_code_uses_is_reserved() -> None:
    assert {name for name in names() if not is_reserved(name)} - OTHERS == set()


@pytest.mark.parametrize(
    "name", ["_id", "_v", "_class", "__v", "_fivetran_synced", "id", "payload"]
)
def test_a_name_of_others_is_not(name: str) -> None:
    assert not is_reserved(name)


@pytest.mark.parametrize("name", ["_BATCH", "_wins", "_dbz_event", "_old_hash"])
def test_one_of_our_own_is_in_any_case(name: str) -> None:
    assert is_reserved(name)
