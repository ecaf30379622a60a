"""`setup`: prepares the machine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import click

from incremental_assets.cli.group import main
from incremental_assets.cli.options import JSON_OBJECT
from incremental_assets.cli.output import ERR, show_object
from incremental_assets.plurals import counted
from incremental_assets.settings import Settings
from incremental_assets.spark.optional_jars import SETS


@main.command()
@click.option(
    "--with",
    "sets",
    multiple=True,
    type=click.Choice(SETS),
    help="Also the jars of such sources. May be given several times.",
)
@JSON_OBJECT
def setup(*, sets: tuple[str, ...], as_json: bool) -> None:
    """Fetch the jars, and make Spark start fast; safe to repeat."""
    from incremental_assets.spark.jars import resolve_jars
    from incremental_assets.spark.java import require_java
    from incremental_assets.spark.optional_jars import resolve_set
    from incremental_assets.spark.session import archive_path
    from incremental_assets.warm_up import make_archive

    settings = Settings.from_environment()
    java = require_java(settings.java_home)
    with _step("Fetching the jars of Delta, Avro and databases, with checksums (15 MB) …"):
        jars = resolve_jars(settings.cache, settings.java_home)
    for name in dict.fromkeys(sets):
        with _step(f"Fetching the jars of {name}, with their checksums …"):
            jars += resolve_set(name, settings.cache, settings.java_home)
    ERR.print(f"  Java {java}, {counted(len(jars), 'jar')} in {jars[0].parent}", soft_wrap=True)
    if not archive_path(settings).exists():
        with _step("Preparing Spark's class archive (once, about a minute) …"):
            make_archive(settings)
    if as_json:
        show_object({"java": java, "jars": [str(jar) for jar in jars]})


@contextmanager
def _step(what: str) -> Iterator[None]:
    """Print what is done before it is, and how long it took after it."""
    ERR.print(what)
    began = time.monotonic()
    yield
    ERR.print(f"  took {time.monotonic() - began:.0f} s")
