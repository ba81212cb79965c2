"""A headless browser: Chromium, or Firefox with BROWSER=firefox in the environment.

Both are Selenium drivers with these extra methods:

- `preload(script)` runs a script in each page, before the page's own scripts.
- `emulate({"prefers-color-scheme": "dark"})` sets media features.
- `be_online(False)` takes the browser offline, and `be_online(True)` back online.
- `console()` returns the console entries since the last call, as pairs of the level (`error`,
  `warn` or another) and the text.
"""

import os
import shutil

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

import firefox

NAME = os.environ.get("BROWSER") or "chromium"
DRIVER = {"chromium": shutil.which("chromedriver"), "firefox": firefox.BINARY}[NAME]
LEVELS = {"SEVERE": "error", "WARNING": "warn"}

needs_browser = pytest.mark.skipif(not DRIVER, reason=f"{NAME} is not installed")


def only(name, reason):
    """Skips a test in any other browser, for this reason."""
    return pytest.mark.skipif(name != NAME, reason=reason)


def browser(width=1280, height=800, scheme="light", hosts=(), has_scripts=True):
    """Starts a browser. Pages have this size in CSS pixels and prefer this colour scheme.

    `hosts` are host names that resolve to this machine. Any certificate is accepted.
    """
    kind = {"chromium": Chromium, "firefox": firefox.Firefox}[NAME]
    driver = kind(width, height, hosts, has_scripts)
    driver.emulate({"prefers-color-scheme": scheme})
    return driver


class Chromium(webdriver.Chrome):
    """Debian's packages chromium and chromium-driver."""

    def __init__(self, width, height, hosts, has_scripts):
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        options.accept_insecure_certs = True
        rules = ",".join(f"MAP {host} 127.0.0.1" for host in hosts)
        # Root needs --no-sandbox; the pages are the project's own.
        for argument in ("--headless", "--no-sandbox", "--disable-gpu", f"--host-resolver-rules={rules}",
                         f"--blink-settings=scriptEnabled={str(has_scripts).lower()}"):  # fmt: skip
            options.add_argument(argument)
        super().__init__(options, Service(DRIVER))
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def preload(self, script):
        self.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": script})

    def emulate(self, features):
        pairs = [{"name": name, "value": value} for name, value in features.items()]
        self.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": pairs})

    def be_online(self, is_online):
        self.execute_cdp_cmd("Network.enable", {})
        conditions = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        self.execute_cdp_cmd("Network.emulateNetworkConditions", conditions | {"offline": not is_online})

    def console(self):
        return [(LEVELS.get(entry["level"], "info"), entry["message"]) for entry in self.get_log("browser")]
