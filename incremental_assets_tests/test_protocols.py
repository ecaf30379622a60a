"""Nobody asks a detector, a write or a source which one it is; what differs, its own file says."""

from __future__ import annotations

import ast
import pkgutil
import re
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import incremental_assets
from incremental_assets import changes, sources, writes
from incremental_assets.changes.detector import Detector
from incremental_assets.sources.feed import Feed
from incremental_assets.sources.source import FixedSource, Source
from incremental_assets.writes import WriteStrategy

ROOT = Path(incremental_assets.__file__).parent
# The functions that may ask: what a definition says is checked where it is defined.
DEFINITIONS = {"table_checks.py": r"_?check_\w+"}
# Whether a bronze table's input is listed by day or fixed whole is asked where it is planned,
# loaded, compared and verified, and where files are listed to be retracted.
ASK_FOR_FEED_OR_SOURCE = {
    "engine/bronze.py",
    "engine/kinds.py",
    "operations/compare.py",
    "plan/plan.py",
    "plan/retract.py",
    "table.py",
    "table_checks.py",
    "verifying/bronze.py",
}
_FEED_OR_SOURCE = re.compile(r"\b(?:table|t|read|bronze)\.(?:feed|source)\b")

for package in (changes, sources, writes):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        import_module(module.name)


def kinds(base: type) -> Iterator[type]:
    for kind in base.__subclasses__():
        if kind.__module__.startswith("incremental_assets."):
            yield kind
        yield from kinds(kind)


def names() -> set[str]:
    bases = (Detector, WriteStrategy, Feed, Source, FixedSource)
    return {kind.__name__ for base in bases for kind in kinds(base)}


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


def checking(file: Path, functions: str) -> set[ast.AST]:
    """All that those functions of a file say whose names match."""
    found = (node for node in nodes(file) if isinstance(node, ast.FunctionDef))
    own = (ast.walk(node) for node in found if re.fullmatch(functions, node.name))
    return {node for some in own for node in some}


def asked(file: Path, but: Iterable[ast.AST] = ()) -> Iterator[str]:
    """The types that a file asks for, by `isinstance`, `type(…) is` or `case`."""
    imported = [node for node in nodes(file) if isinstance(node, ast.ImportFrom)]
    renamed = {a.asname: a.name for node in imported for a in node.names if a.asname}
    of_others = {
        alias.asname or alias.name
        for node in imported
        if not (node.module or "").startswith("incremental_assets")
        for alias in node.names
    }
    for node in set(nodes(file)) - set(but):
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
                if isinstance(name, ast.Attribute):
                    yield name.attr
                elif isinstance(name, ast.Name) and name.id not in of_others:
                    yield renamed.get(name.id, name.id)


def test_nobody_asks_which_detector_write_or_source_it_is() -> None:
    found, kinds_of_all = {}, names()
    for file in sorted(ROOT.rglob("*.py")):
        own = {node.name for node in nodes(file) if isinstance(node, ast.ClassDef)}
        name = str(file.relative_to(ROOT))
        may_ask = checking(file, DEFINITIONS.get(name, ""))
        found[name] = (set(asked(file, may_ask)) & kinds_of_all) - own

    assert {name: some for name, some in found.items() if some} == {}


def test_few_files_ask_whether_a_table_reads_a_feed_or_a_source() -> None:
    files = {str(f.relative_to(ROOT)): f.read_text() for f in ROOT.rglob("*.py")}

    assert {n for n, text in files.items() if _FEED_OR_SOURCE.search(text)} == (
        ASK_FOR_FEED_OR_SOURCE
    )


def test_each_function_that_may_ask_does() -> None:
    for name, functions in DEFINITIONS.items():
        file = ROOT / name
        rest = set(asked(file, checking(file, functions)))
        assert (set(asked(file)) - rest) & names(), name


def test_the_contract_on_imports_names_each_detector_and_write() -> None:
    with (ROOT.parent / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    (contract,) = (c for c in contracts if c["name"].startswith("Detectors and writes "))
    of_all = {kind.__module__ for base in (Detector, WriteStrategy) for kind in kinds(base)}

    assert set(contract["protected_modules"]) == {changes.__name__, writes.__name__, *of_all}


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
        "from collections.abc import Sequence\n"
        "from incremental_assets.changes import Sequence as S\n"
        "isinstance(x, S | Merge)\n"
        "isinstance(x, Sequence)\n"
        "match x:\n    case changes.Timestamp(column=c): pass\n"
        "type(x) is SCD2\n"
    )

    assert set(asked(file)) & names() == {"Sequence", "Merge", "Timestamp", "SCD2"}


def test_what_checks_a_definition_may_ask_and_nothing_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "table.py"
    file.write_text(
        "def _check_kind(x):\n    isinstance(x, Jdbc)\n"
        "def snapshots(x):\n    isinstance(x, SnapshotDiff | Kafka)\n"
    )

    assert set(asked(file)) & names() == {"Jdbc", "SnapshotDiff", "Kafka"}
    assert set(asked(file, checking(file, r"_check_\w+"))) == {"SnapshotDiff", "Kafka"}


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
