"""Take the pictures of docs/quality-rules.md and docs/monitoring.md: a week of sales in the UI.

    python scripts/picture_checks.py [FOLDER]

Lands a week of made-up sales, on its last day too many bad rows, loads it with `incremental-assets
run` into a temporary folder, starts the webserver and has a headless Chromium (`apt-get install
chromium`) take the pictures, by default into docs/pictures.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

from incremental_assets.spark.server import free_port

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
LOCALHOST = "127.0.0.1"
WIDTH = 1400  # pixels
ROWS = 200  # of the day before the first; each day has seven more
BAD = (2, 1, 4, 2, 5, 3, 16)  # rows of a day; of the last, today, too many to be published
SALES = "/assets/silver/sales"
# Name → where it is seen, a text that is there once it is complete, and the height.
PICTURES = {
    "checks-lineage": (f"{SALES}?view=lineage&lineageScope=graph&lineageDepth=2", "events", 820),
    "checks-row-rule": (f"{SALES}?view=checks&checkDetail=qty_at_least_0", "examples", 720),
    "checks-day-rule": (f"{SALES}?view=checks&checkDetail=quarantined_share", "Plots", 640),
    "monitoring-columns": ("/assets/gold/sales_mart", "Passing", 1080),
}


def main() -> None:
    to = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "pictures"
    to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        env = _environment(folder)
        _land(folder / "landing")
        loaded = subprocess.run([str(BIN / "incremental-assets"), "run"], env=env, check=False)
        if loaded.returncode != 1:
            sys.exit("The load should have held a day and said so.")
        daemon = [str(BIN / "dagster-daemon"), "run", "-w", str(ROOT / "workspace.yaml")]
        with (
            _running(daemon, folder, env),
            _webserver(folder, env) as address,
            _browser(folder) as browser,
        ):
            for picture, (path, text, height) in PICTURES.items():
                browser.show(address + path, text, height)
                (to / f"{picture}.png").write_bytes(browser.picture())
                sys.stdout.write(f"{to / picture}.png\n")


def _environment(folder: Path) -> dict[str, str]:
    home = folder / "dagster"
    home.mkdir()
    settings = (ROOT / "incremental_assets/orchestration/dagster.yaml").read_text()
    (home / "dagster.yaml").write_text(f"{settings}\nnux:\n  enabled: false\n")
    return {
        **os.environ,
        "INCREMENTAL_ASSETS_LAKE": str(folder / "lake"),
        "INCREMENTAL_ASSETS_LANDING": str(folder / "landing"),
        "INCREMENTAL_ASSETS_START_DATE": str(_days()[0]),
        "DAGSTER_HOME": str(home),
        "PATH": f"{BIN}:{os.environ['PATH']}",
    }


def _days() -> list[date]:
    """The week that ends today (UTC)."""
    today = datetime.now(UTC).date()
    return [today - timedelta(days=back) for back in reversed(range(len(BAD)))]


def _land(landing: Path) -> None:
    """Sales of a week; what is bad has a negative quantity, or on every other row no price."""
    for number, (day, bad) in enumerate(zip(_days(), BAD, strict=True), 1):
        file = landing / "events" / str(day) / "sales.jsonl"
        file.parent.mkdir(parents=True)
        rows = [
            {
                "order_id": f"{day}-{n:03d}",
                "user_id": f"u{n % 40}",
                "store_id": f"s{n % 3}",
                "product_id": f"p{n % 25}",
                "qty": -1 if n < bad and n % 2 == 0 else 1 + n % 3,
                "unit_price": None if n < bad and n % 2 else 2.5,
                "event_ts": f"{day}T00:00:00Z",
                "arrival_ts": f"{day}T00:05:00Z",
            }
            for n in range(ROWS + 7 * number)
        ]
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))


class Browser:
    """A page of a headless Chromium, driven over its DevTools protocol."""

    def __init__(self, socket_: ClientConnection) -> None:
        self._socket = socket_
        self._numbers = count(1)

    def show(self, url: str, text: str, height: int) -> None:
        """Open the address and wait until the page holds the text and has come to rest."""
        size = {"width": WIDTH, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._do("Emulation.setDeviceMetricsOverride", **size)
        self._do("Page.navigate", url=url)
        deadline = time.monotonic() + 60
        while text not in self._text():
            if time.monotonic() > deadline:
                sys.exit(f"{url} does not show {text!r} but:\n{self._text()}")
            time.sleep(0.5)
        before = b""
        while (now := self.picture()) != before and time.monotonic() < deadline:
            before = now
            time.sleep(2)

    def picture(self) -> bytes:
        """The page as a PNG."""
        return base64.b64decode(self._do("Page.captureScreenshot", format="png")["data"])

    def _text(self) -> str:
        found = self._do("Runtime.evaluate", expression="document.body?.innerText ?? ''")
        return str(found["result"]["value"])

    def _do(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            answer = json.loads(self._socket.recv(timeout=60))
            if answer.get("id") == number:
                result: dict[str, Any] = answer["result"]
                return result


@contextmanager
def _webserver(folder: Path, env: dict[str, str]) -> Iterator[str]:
    port = free_port()
    program = [str(BIN / "dagster-webserver"), "-w", str(ROOT / "workspace.yaml")]
    with _running([*program, "-h", LOCALHOST, "-p", str(port)], folder, env):
        address = f"http://{LOCALHOST}:{port}"
        _answer(f"{address}/server_info")
        yield address


@contextmanager
def _browser(folder: Path) -> Iterator[Browser]:
    port = free_port()
    program = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    own = [f"--remote-debugging-port={port}", f"--user-data-dir={folder / 'chromium'}"]
    with _running([*program, *own, "about:blank"], folder, {**os.environ, "TMPDIR": str(folder)}):
        pages = json.loads(_answer(f"http://{LOCALHOST}:{port}/json"))
        page = next(p for p in pages if p["type"] == "page")
        with connect(page["webSocketDebuggerUrl"], max_size=None) as socket_:
            yield Browser(socket_)


@contextmanager
def _running(command: list[str], folder: Path, env: dict[str, str]) -> Iterator[None]:
    """A process that is ended when the block is left."""
    with (folder / f"{Path(command[0]).name}.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=env, stdout=log, stderr=log)
        try:
            yield
        finally:
            process.terminate()
            process.wait(timeout=60)


def _answer(url: str) -> bytes:
    deadline = time.monotonic() + 120
    while True:
        try:
            with urllib.request.urlopen(url, timeout=10) as found:
                body: bytes = found.read()
                return body
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


if __name__ == "__main__":
    main()
