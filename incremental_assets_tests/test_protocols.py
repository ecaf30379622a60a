"""Nobody asks a detector, a write or a source which one it is; what differs, its own file says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import incremental_assets
from incremental_assets.changes.detector import Detector
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.sources.source import FixedSource, Source
from incremental_assets.writes import WriteStrategy

ROOT = Path(incremental_assets.__file__).parent
# What a definition says is checked where it is defined.
DEFINITIONS = {"table.py", "table_checks.py", "gold_checks.py"}


def kinds(base: type) -> Iterator[type]:
    for kind in base.__subclasses__():
        if kind.__module__.startswith("incremental_assets."):
            yield kind
        yield from kinds(kind)


def names() -> set[str]:
    for module in (
        *("changes", "writes", "sources.stored", "sources.stored_delta"),
        *("writes.delete_insert", "writes.overwrite_days"),
    ):
        __import__(f"incremental_assets.{module}")
    bases = (Detector, WriteStrategy, Source, FixedSource)
    return {LandedFiles.__name__, *(kind.__name__ for base in bases for kind in kinds(base))}


def flags_of_one_kind() -> set[str]:
    """What a flag that asks for one kind would be called: of SnapshotDiff `is_snapshot`, …"""
    words = [
        re.findall(r"[A-Z0-9]+(?![a-z])|[A-Z][a-z0-9]*", kind.__name__)
        for base in (Detector, WriteStrategy)
        for kind in kinds(base)
    ]
    return {
        "is_" + "_".join(name[first:end]).lower()
        for name in words
        for first in range(len(name))
        for end in range(first + 1, len(name) + 1)
    }


@cache
def nodes(file: Path) -> list[ast.AST]:
    """All that a file says, parsed once for all tests."""
    return list(ast.walk(ast.parse(file.read_text())))


def named(file: Path) -> Iterator[str]:
    """The flags that a file reads, declares or passes on."""
    for node in nodes(file):
        for field in ("attr", "id", "arg", "name"):
            text = getattr(node, field, None)
            if isinstance(text, str):
                yield text


def compared(file: Path) -> Iterator[str]:
    """The texts that a file compares with the `name` of something, or with a `detector`."""
    for node in nodes(file):
        if isinstance(node, ast.Compare):
            first, others = node.left, node.comparators
        elif isinstance(node, ast.Match):
            first, others = node.subject, [case.pattern for case in node.cases]
        else:
            continue
        parts = [part for each in (first, *others) for part in ast.walk(each)]
        if any(getattr(part, "attr", "") in ("name", "detector") for part in parts):
            yield from (
                part.value
                for part in parts
                if isinstance(part, ast.Constant) and isinstance(part.value, str)
            )


def asked(file: Path) -> Iterator[str]:
    """The types that a file asks for, by `isinstance`, `type(…) is` or `case`."""
    renamed = {
        alias.asname: alias.name
        for node in nodes(file)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname
    }
    for node in nodes(file):
        parts: list[ast.AST] = []
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in (
            "isinstance",
            "issubclass",
        ):
            parts = [node.args[1]]
        elif isinstance(node, ast.Compare) and "type(" in ast.unparse(node):
            parts = list(node.comparators)
        elif isinstance(node, ast.MatchClass):
            parts = [node.cls]
        for part in parts:
            for name in ast.walk(part):
                if isinstance(name, ast.Name | ast.Attribute):
                    text = name.id if isinstance(name, ast.Name) else name.attr
                    yield renamed.get(text, text)


def test_nobody_asks_which_detector_write_or_source_it_is() -> None:
    found, kinds_of_all = {}, names()
    for file in sorted(ROOT.rglob("*.py")):
        own = {node.name for node in nodes(file) if isinstance(node, ast.ClassDef)}
        found[str(file.relative_to(ROOT))] = (set(asked(file)) & kinds_of_all) - own

    assert {name for name, some in found.items() if some} <= DEFINITIONS


def test_no_flag_asks_which_detector_or_write_it_is() -> None:
    flags = flags_of_one_kind()

    assert {f.name: some for f in ROOT.rglob("*.py") if (some := flags & set(named(f)))} == {}


def test_nobody_compares_the_name_of_a_detector() -> None:
    names = {kind.name for kind in kinds(Detector) if hasattr(kind, "name")}

    assert {f.name: some for f in ROOT.rglob("*.py") if (some := names & set(compared(f)))} == {}


def types_of(file: Path) -> Iterator[str]:
    """The classes and the module's type aliases and variables that a file defines."""
    for node in nodes(file):
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Module):
            for line in node.body:
                parts = line.targets if isinstance(line, ast.Assign) else [line]
                for part in parts:
                    name = ast.unparse(getattr(part, "target", part))
                    if re.fullmatch(r"_?[A-Z]\w*[a-z]\w*", name):
                        yield name


def test_each_class_and_type_alias_has_a_name_of_its_own() -> None:
    files: dict[str, list[str]] = {}
    for file in sorted(ROOT.rglob("*.py")):
        for name in types_of(file):
            files.setdefault(name.lstrip("_"), []).append(file.name)

    assert {name: some for name, some in files.items() if len(some) > 1} == {}


def test_a_type_alias_is_found(tmp_path: Path) -> None:
    file = tmp_path / "aliases.py"
    file.write_text(
        "_Names = Callable[[str], int]\nKey: TypeAlias = str | int\nMOST = 1\n_V = TypeVar('_V')\n"
        "class Place:\n    Inside = int\nPlace.Other = 2\n"
    )

    assert set(types_of(file)) == {"_Names", "Key", "Place"}


def test_a_file_that_asks_is_found(tmp_path: Path) -> None:
    file = tmp_path / "asks.py"
    file.write_text(
        "from incremental_assets.changes import Sequence as S\n"
        "isinstance(x, S | Merge)\n"
        "match x:\n    case changes.Timestamp(column=c): pass\n"
        "type(x) is SCD2\n"
    )

    assert set(asked(file)) & names() == {"Sequence", "Merge", "Timestamp", "SCD2"}


def test_a_file_that_asks_by_a_flag_or_a_name_is_found(tmp_path: Path) -> None:
    file = tmp_path / "asks.py"
    file.write_text(
        "class Detector:\n    is_snapshot: bool = False\n"
        "if table.changes.is_log: Destination(is_scd2=True)\n"
        "if changes.name in ('snapshot diff', 'sequence'): pass\n"
        "match changes.name:\n    case 'timestamp': pass\n"
    )

    assert set(named(file)) & flags_of_one_kind() == {"is_snapshot", "is_log", "is_scd2"}
    assert set(compared(file)) == {"snapshot diff", "sequence", "timestamp"}
