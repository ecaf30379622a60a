"""The names of a package's tables, found without importing a table, and so without Spark."""

from __future__ import annotations

import importlib.util
import pkgutil
from functools import cache

from incremental_assets.choices import no_such
from incremental_assets.errors import DefinitionError, SettingsError

LAYERS = ("bronze", "silver", "gold")


@cache
def table_names(package: str) -> tuple[str, ...]:
    """The tables in the layers of a package, by layer and name: `<layer>/<module>`.

    Raises SettingsError if the package cannot be found.
    """
    require_package(package)
    names: list[str] = []
    for layer in LAYERS:
        try:
            found = importlib.util.find_spec(f"{package}.{layer}")
        except ImportError as error:
            raise SettingsError(
                f"The package {package!r}, which INCREMENTAL_ASSETS_TABLES names, cannot be "
                f"imported: {error}."
            ) from error
        modules = pkgutil.iter_modules(found.submodule_search_locations if found else ())
        names += sorted(f"{layer}/{module.name}" for module in modules)
    return tuple(names)


def require_package(package: str) -> None:
    """Raise SettingsError if the package of the tables cannot be found."""
    try:
        found = importlib.util.find_spec(package)
    except ImportError as error:
        if error.name is None or not f"{package}.".startswith(f"{error.name}."):
            raise SettingsError(
                f"The package {package!r}, which INCREMENTAL_ASSETS_TABLES names, cannot be "
                f"imported: {error}."
            ) from error
        found = None
    if found is None:
        raise SettingsError(
            f"The package {package!r}, which INCREMENTAL_ASSETS_TABLES names, cannot be imported. "
            "Install it, or put its folder on PYTHONPATH."
        )


def no_such_table(name: str, known: tuple[str, ...]) -> DefinitionError:
    """The error for a name that no table has."""
    return DefinitionError(no_such("table", name, known))
