"""A headless Chromium, with what it asked for and what it complained of."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--window-size=1200,900"),
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # nor does what Chromium asks for of its own accord
)


def started(profile: Path) -> webdriver.Chrome:
    """Chromium as Debian's packages chromium and chromium-driver have it (`make browser`), with a new profile."""
    options = webdriver.ChromeOptions()
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.binary_location = shutil.which("chromium") or "chromium"
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver") or "chromedriver"))


class Browser:
    """Chromium, with what it asked for and what it complained of."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def show(self, url: str) -> None:
        """Open a page; what came before it is forgotten."""
        self.driver.get("about:blank")
        self.requests(), self.complaints()
        self.driver.get(url)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def requests(self) -> list[str]:
        """Addresses of all requests since the last call, redirections and failures among them."""
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]

    def complaints(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser")]
