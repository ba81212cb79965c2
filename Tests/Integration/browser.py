"""A headless Chromium; Debian's packages chromium and chromium-driver."""

import shutil

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

DRIVER = shutil.which("chromedriver")


def browser(width=1280, height=800, scheme="light", arguments=()):
    """Starts a browser whose pages have this size in CSS pixels and prefer this colour scheme."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    # Root needs --no-sandbox; the pages are the project's own.
    for argument in ("--headless", "--no-sandbox", "--disable-gpu", *arguments):
        options.add_argument(argument)
    driver = webdriver.Chrome(options, Service(DRIVER))
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    preferred = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", preferred)
    return driver
