"""Tests of pages use a headless Chromium, and skip with a reason where there is none."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# a browser of root needs no-sandbox
FLAGS = ("headless=new", "no-sandbox", "disable-dev-shm-usage", "disable-gpu", "hide-scrollbars")
FLAGS = (*FLAGS, "disable-background-networking", "window-size=1280,900")


class Page:
    """A page in the browser, and what the browser had to say of it."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver
        self.run = driver.execute_script

    def open(self, path: Path) -> None:
        self.driver.get(path.as_uri())

    def console(self) -> list[str]:
        """Return everything that the console shows, with violations of policies."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Return the addresses that were requested, without data in the page itself."""
        messages = (json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance"))
        sent = [message["params"] for message in messages if message["method"] == "Network.requestWillBeSent"]
        return [url for request in sent if not (url := request["request"]["url"]).startswith("data:")]

    def prefer(self, scheme: str) -> None:
        """Let the system prefer "light" or "dark"."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})

    def resize(self, width: int) -> None:
        """Give the page a screen of another width, and wait until it knows."""
        screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 800}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        # the event comes with the next picture, before its functions are called
        frames = "const [done] = arguments, next = requestAnimationFrame; next(() => next(() => done()));"
        self.driver.execute_async_script(frames)


@contextmanager
def chromium() -> Iterator[Page]:
    """Yield a new browser, which is closed at the end."""
    browser, helper = next(filter(None, map(shutil.which, BROWSERS)), None), shutil.which("chromedriver")
    if browser is None or helper is None:
        pytest.skip("Chromium and its driver (Debian: chromium, chromium-driver) are not on this machine")
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for flag in FLAGS:
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with webdriver.Chrome(options=options, service=webdriver.ChromeService(helper)) as driver:
        yield Page(driver)
