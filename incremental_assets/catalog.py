"""All tables, found in the packages of the layers: a module of a layer defines one table."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Sequence
from functools import cache
from types import ModuleType

from incremental_assets.errors import DefinitionError, IncrementalAssetsError, TablesError
from incremental_assets.settings import Settings
from incremental_assets.table import Table
from incremental_assets.table_names import layers_of, line_that_raised, no_such_table


def tables() -> tuple[Table, ...]:
    """The tables of the package that the settings name, upstreams before what reads them."""
    return tables_of(Settings.from_environment().tables)


@cache
def tables_of(package: str) -> tuple[Table, ...]:
    """The tables in the layers of a package.

    Raises TablesError if it has none, or defines one in a way that cannot work, and SettingsError
    if it or a layer is no package.
    """
    try:
        made = find_tables(_imported(f"{package}.{layer}") for layer in layers_of(package))
    except DefinitionError as error:
        raise TablesError(str(error)) from error
    if not made:
        raise TablesError(
            f"The package {package!r} defines no table: it needs packages named bronze, silver and "
            "gold, in which a module defines one table."
        )
    return made


def find_tables(packages: Iterable[ModuleType]) -> tuple[Table, ...]:
    """The tables that the modules of these packages define, upstreams first.

    A module's own table is the one whose name is `<layer>/<module>`. Raises DefinitionError for
    a module without one.
    """
    found: dict[str, Table] = {}
    for package in packages:
        layer = package.__name__.rpartition(".")[2]
        for info in pkgutil.iter_modules(package.__path__):
            module = _imported(f"{package.__name__}.{info.name}")
            name = f"{layer}/{info.name}"
            own = [v for v in vars(module).values() if isinstance(v, Table) and v.name == name]
            if len({id(table) for table in own}) > 1:
                raise DefinitionError(
                    f"{module.__name__} defines more than one Table named {name!r}; keep one."
                )
            if not own:
                raise DefinitionError(
                    f"{module.__name__} defines no Table named {name!r}; name the table after its "
                    "folder and file."
                )
            found[name] = own[0]
    ordered: dict[str, Table] = {}
    for table in found.values():
        _visit(table, found, ordered, ())
    return tuple(ordered.values())


def _imported(name: str) -> ModuleType:
    """A module of tables. Raises DefinitionError, with file and line, for whatever it raises."""
    try:
        return importlib.import_module(name)
    except IncrementalAssetsError:
        raise
    except Exception as error:  # a module may raise anything
        where = line_that_raised(error, name) or name
        what = error.msg if isinstance(error, SyntaxError) else str(error)
        raise DefinitionError(f"{where}: {type(error).__name__}: {what}") from error


def _visit(
    table: Table, found: dict[str, Table], ordered: dict[str, Table], below: tuple[str, ...]
) -> None:
    """Put a table after those that it reads and that its rules read.

    Raises DefinitionError for a table that reads another one of the name of a found one.
    """
    if table.name in below:
        circle = " → ".join((*below[below.index(table.name) :], table.name))
        raise DefinitionError(
            f"{circle}: a rule reads a table that is built on the rule's own table. Let it read "
            "one that is loaded earlier."
        )
    for name in sorted(table.rule_tables):
        if name not in found:
            raise DefinitionError(
                f"{table.name}: a rule reads {name!r}, which is no table of the lakehouse."
            )
    needed = [read.table for read in table.upstreams]
    for other in needed:
        if (found | ordered).get(other.name, other) is not other:
            raise DefinitionError(
                f"{table.name} reads another Table named {other.name!r} than the one of that "
                "name's own module; import that one."
            )
    for other in (*needed, *(found[name] for name in sorted(table.rule_tables))):
        if other.name not in ordered:
            _visit(other, found, ordered, (*below, table.name))
    ordered.setdefault(table.name, table)


def tables_named(names: Sequence[str], among: Sequence[Table] | None = None) -> list[Table]:
    """The tables of these names in the order of loading; all of them where none is named.

    `among` are the tables of a lake, upstreams first; None: those of the environment.

    Raises DefinitionError for one that is not there.
    """
    every = tables() if among is None else among
    asked = {table_named(every, name).name for name in names}
    return [table for table in every if not asked or table.name in asked]


def table_named(tables: Sequence[Table], name: str) -> Table:
    """The table of that name. Raises DefinitionError for one that is not there."""
    found = next((table for table in tables if table.name == name), None)
    if found is None:
        raise no_such_table(name, tuple(table.name for table in tables))
    return found
