"""A pytest plugin: several pytest processes share one queue of test files.

Each of them collects all tests, and runs the files that it is the first to claim, by making a file
of that name in a folder that all share. So none is idle while files are left, and each has one
Spark for all files that it runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest

END_TO_END = f"{Path(__file__).parent.name}/end_to_end/"
# What takes minutes, the longest first: a long file that is begun last is waited for by all.
LONGEST = tuple(
    f"{END_TO_END}test_{n}.py" for n in ("sensors", "kill", "browser", "command_line", "gates_hold")
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("shared queue")
    group.addoption("--claims", type=Path, required=True, help="the folder that all share")
    group.addoption("--from-the-end", action="store_true", help="begin with the last file")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """First what starts processes of its own, then what needs no Spark, last the most tests.

    So the process that begins with the first has a Spark of its own late, or never: what a young
    JVM compiles takes a third of its time.
    """
    files = {name: list(of_file) for name, of_file in groupby(items, key=file_of)}

    def rank(name: str) -> tuple[bool, bool, int, int]:
        long = LONGEST.index(name) if name in LONGEST else len(LONGEST)
        needs_spark = any("spark" in fixtures_of(item) for item in files[name])
        return not name.startswith(END_TO_END), needs_spark, long, len(files[name])

    names = sorted(files, key=rank, reverse=config.getoption("--from-the-end"))
    items[:] = [item for name in names for item in files[name]]


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """pytest's own loop, over the tests that this process claims."""
    if session.testsfailed or session.config.option.collectonly:
        return None  # pytest says what could not be collected
    claimed = _claimed(session)
    item = next(claimed, None)
    while item is not None:
        following = next(claimed, None)  # fixtures that it shares with this one are kept
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        item = following
    return True


def fixtures_of(item: pytest.Item) -> list[str]:
    """The names of all fixtures that a test needs, those of its fixtures included."""
    return item.fixturenames if isinstance(item, pytest.Function) else []


def file_of(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def _claimed(session: pytest.Session) -> Iterator[pytest.Item]:
    """The tests of the files that no other process has claimed."""
    folder: Path = session.config.getoption("--claims")
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    files = [(name, list(of_file)) for name, of_file in groupby(session.items, key=file_of)]
    for name, items in files:
        try:
            (folder / name.replace("/", "-")).touch(exist_ok=False)
        except FileExistsError:
            continue
        if isinstance(terminal, pytest.TerminalReporter):
            terminal.write(f"\n{len(list(folder.iterdir())):4} of {len(files)}  {name} ")
        yield from items
