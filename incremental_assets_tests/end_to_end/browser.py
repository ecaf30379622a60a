"""Dagster's pages in a real browser: Debian's Chromium, without a screen."""

from __future__ import annotations

import os
import shutil
import time
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest
from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

PROGRAMS: Final = ("chromium", "chromedriver")
MISSING: Final = (
    "no Chromium: apt-get install chromium chromium-driver, and the pages are tested, too"
)
NEEDED: Final = "TESTS_NEED_BROWSER"
"""The environment variable under which a test fails for want of a browser, instead of being left out."""
PATIENCE: Final = 120  # seconds; a page is there in one, on a machine with nothing else to do
WIDTH, HEIGHT = 1400, 900
NAVIGATION: Final = 240  # pixels on the left of each page of Dagster
LOOKS: Final = 20  # at a page that does not come to rest
GRAPH: Final = """
const svg = document.querySelector("svg foreignObject").closest("svg");
const place = (box) => ["x", "y", "width", "height"].map((name) => Number(box.getAttribute(name)));
const line = (box) => box.firstElementChild.innerText.split("\\n")[0];
const boxes = [...svg.querySelectorAll("foreignObject")].map((box) => [line(box), ...place(box)]);
return [boxes, [...svg.querySelectorAll("path[marker-end]")].map((path) => path.getAttribute("d"))];
"""
T = TypeVar("T")


class Page:
    """What a person sees of the webserver on a port, and what they can do there.

    Pictures of it go into a folder; where none is given, none is taken.
    """

    def __init__(self, driver: webdriver.Chrome, port: int, pictures: Path | None) -> None:
        self._driver = driver
        self._root = f"http://127.0.0.1:{port}"
        self._pictures = pictures
        self._do("Emulation.setScrollbarsHidden", hidden=True)

    def open(self, path: str, *, width: int = WIDTH, height: int = HEIGHT) -> None:
        """Open a page of the webserver in a window of that size, in pixels."""
        self._resize(width, height)
        self._driver.get(f"{self._root}{path}")

    def open_file(self, file: Path, *, width: int = WIDTH, height: int = HEIGHT) -> None:
        self._resize(width, height)
        self._driver.get(file.as_uri())

    def draws(self, alternative: str) -> None:
        """Wait until a picture is drawn whose alternative text begins so, in whatever case."""
        seen = f"[...document.images].find(i => i.alt.toLowerCase().startsWith('{alternative}'))"
        deadline = time.monotonic() + PATIENCE
        while not self._driver.execute_script(f"return ({seen} ?? {{}}).naturalWidth"):
            assert time.monotonic() < deadline, f"no picture of {alternative}:\n{self.text()}"
            time.sleep(0.3)

    def text(self) -> str:
        """All that can be read on the page, in the order of the page."""
        try:
            return self._driver.find_element(By.TAG_NAME, "body").text
        except WebDriverException:  # the page is being redrawn
            return ""

    def shows(self, *texts: str, seconds: float = PATIENCE) -> str:
        """Wait until all of the texts can be read; gives all that can be read then."""
        deadline = time.monotonic() + seconds
        while missing := [text for text in texts if text not in (seen := self.text())]:
            assert time.monotonic() < deadline, f"{missing} not among what is shown:\n{seen}"
            time.sleep(0.3)
        return seen

    def press(self, label: str) -> None:
        """Press the button or tab that says so; of several the one that lies on top, as a dialog does."""
        self._click(f"//button[contains(., '{label}')]|//a[normalize-space()='{label}']")

    def switch_on(self) -> None:
        """Turn the page's first switch."""
        self._click("//input[@type='checkbox']/..")

    def fill_in(self, placeholder: str, text: str) -> None:
        """Replace the text of the field whose placeholder begins so."""
        field = self._click(f"//input[starts-with(@placeholder, '{placeholder}')]")
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(text, Keys.ENTER)

    def drawn(self) -> tuple[list[Any], list[str]]:
        """The boxes of a graph, each with its first line and place, and the paths of its arrows."""
        boxes, paths = self._at_rest(lambda: self._driver.execute_script(GRAPH))
        return boxes, paths

    def picture(
        self, name: str, *, left: int = NAVIGATION, top: int = 0, width: int = 0, height: int = 0
    ) -> None:
        """Take a picture for the documentation: of that part, or to the right and the bottom."""
        if self._pictures is None:
            return
        window = self._driver.execute_script("return [innerWidth, innerHeight]")
        size = {"width": width or window[0] - left, "height": height or window[1] - top}
        clip = {"x": left, "y": top, **size, "scale": 1}
        taken = self._at_rest(lambda: self._shot(clip))
        self._pictures.mkdir(parents=True, exist_ok=True)
        (self._pictures / f"{name}.png").write_bytes(taken)

    def _at_rest(self, look: Callable[[], T]) -> T:
        """What is seen twice in a row, a second apart."""
        before, now = None, look()
        for _ in range(LOOKS):
            if now == before:
                break
            time.sleep(1)
            before, now = now, look()
        return now

    def _shot(self, clip: dict[str, int]) -> bytes:
        return b64decode(self._do("Page.captureScreenshot", format="png", clip=clip)["data"])

    def _resize(self, width: int, height: int) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._do("Emulation.setDeviceMetricsOverride", **size)

    def _do(self, command: str, **words: Any) -> Any:
        return self._driver.execute_cdp_cmd(command, words)

    def _click(self, xpath: str) -> WebElement:
        deadline = time.monotonic() + PATIENCE
        while True:
            for each in self._driver.find_elements(By.XPATH, xpath):
                with suppress(WebDriverException):  # hidden, covered, or redrawn meanwhile
                    if each.is_enabled():
                        each.click()
                        return each
            assert time.monotonic() < deadline, f"no {xpath} to click at:\n{self.text()}"
            time.sleep(0.3)


@contextmanager
def chromium(port: int, pictures: Path | None = None) -> Iterator[Page]:
    """A browser without a screen for as long as the block.

    Where there is none, the test is skipped, or fails where `TESTS_NEED_BROWSER` is set.
    """
    if not all(map(shutil.which, PROGRAMS)):
        if os.environ.get(NEEDED):
            pytest.fail(f"{MISSING} ({NEEDED} is set)")
        pytest.skip(MISSING)
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which(PROGRAMS[0]) or ""
    for option in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(option)
    service = webdriver.ChromeService(shutil.which(PROGRAMS[1]))
    driver = webdriver.Chrome(options, service)
    try:
        yield Page(driver, port, pictures)
    finally:
        driver.quit()
