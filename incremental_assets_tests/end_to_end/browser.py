"""Dagster's pages in a real browser: Debian's Chromium, without a screen."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

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
PATIENCE: Final = 120  # seconds; a page is there in one, on a machine with nothing else to do


class Page:
    """What a person sees of the webserver on a port, and what they can do there."""

    def __init__(self, driver: webdriver.Chrome, port: int) -> None:
        self._driver = driver
        self._root = f"http://127.0.0.1:{port}"

    def open(self, path: str) -> None:
        self._driver.get(f"{self._root}{path}")

    def open_file(self, file: Path) -> None:
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

    def picture(self, file: Path) -> None:
        self._driver.save_screenshot(str(file))

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
def chromium(port: int, *, width: int = 1400, height: int = 900) -> Iterator[Page]:
    """A browser without a screen for as long as the block; the test is skipped where there is none."""
    if not all(map(shutil.which, PROGRAMS)):
        pytest.skip(MISSING)
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which(PROGRAMS[0]) or ""
    for option in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(option)
    options.add_argument(f"--window-size={width},{height}")
    service = webdriver.ChromeService(shutil.which(PROGRAMS[1]))
    driver = webdriver.Chrome(options, service)
    try:
        yield Page(driver, port)
    finally:
        driver.quit()
