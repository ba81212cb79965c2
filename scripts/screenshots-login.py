#!/usr/bin/env python3
"""screenshots-login.py DIRECTORY - pictures of the login example, for docs/images.

A phone, light and dark, with a code just sent. Needs the daemon, and what
scripts/integration-test.sh installs: run it with .build/venv/bin/python.
"""

import pathlib
import sys
import time

PROJECT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT / "Tests/Integration"))

from browser import browser  # noqa: E402
from countdownd import Daemon, eventually  # noqa: E402
from test_examples import POLICY, Service, flask_command  # noqa: E402
from test_login_page import Page  # noqa: E402

directory = pathlib.Path(sys.argv[1])
for scheme in ("light", "dark"):
    # Time is frozen, so every run makes the same pictures.
    daemon = Daemon(virtual_time=True, config=POLICY)
    service = Service(flask_command, daemon)
    driver = browser(390, 600, scheme)
    page = Page(driver, service.url)
    driver.execute_script("performance.now = () => 0")
    page.ask_for_a_code("+45 12 34 56 78")
    eventually(lambda: page.says("We sent you a code."), "it is sent")
    driver.execute_script("document.activeElement.blur()")
    time.sleep(0.2)
    driver.save_screenshot(str(directory / f"login-phone-{scheme}.png"))
    driver.quit()
    service.close()
    daemon.close()
