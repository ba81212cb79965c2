#!/usr/bin/env python3
"""screenshots-gateway.py DIRECTORY - pictures of the gateway's screens, for docs/images.

The dashboard of a busy daemon, light and dark, and the states of the tutorial's button. Needs the
daemon, the gateway, and what scripts/integration-test.sh installs: run it with
.build/venv/bin/python.
"""

import pathlib
import sys
import threading
import time

PROJECT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(PROJECT / "Tests/Screen"), str(PROJECT / "Tests/Integration")]

from browser import browser  # noqa: E402
from countdownd import Daemon, eventually  # noqa: E402
from gateway import App, Gateway  # noqa: E402
from pages import blocks  # noqa: E402


def fill(client):
    """Creates what a medium-sized app has at a time."""
    for number in range(300):
        client("COUNTDOWN", "START", f"+45{number:08}", "COUNT", str(20 + 3 * number))
    for number in range(120):
        client("TIMER", "SET", f"order-{number}", f"{2 + number * number}s")
    for number in range(40):
        client("THROTTLE", "TAKE", f"search-{number}", "BURST", "5", "RATE", "1/10s")
        client("ONCE", "BEGIN", f"pay-{number}", "TTL", "10m")
        client("DEBOUNCE", "CALL", f"save-{number}", "40s")
    for number in range(9):
        client("HUD", "SHOW", f"screen-{number}", "STATUS", "Loading")
        client("SCOPE", "OPEN", f"session-{number}")


def work(daemon, is_over):
    number = 0
    with daemon.connect() as client:
        while not is_over.is_set():
            number += 1
            key = f"+46{number % 500:08}"
            client("COUNTDOWN", "START", key, "COUNT", "60")
            if number % 3 == 0:
                client("COUNTDOWN", "GET", key)
            if number % 7 == 0:
                client("TIMER", "SET", f"job-{number % 90}", f"{number % 40}00ms")
            if number % 11 == 0:
                client("THROTTLE", "TAKE", f"search-{number % 40}", "BURST", "5", "RATE", "1/10s")
            time.sleep(0.004)


def dashboard(directory):
    daemon = Daemon()
    gateway = Gateway(daemon, "--dashboard")
    is_over = threading.Event()
    worker = threading.Thread(target=work, args=(daemon, is_over))
    with daemon.connect() as client:
        fill(client)
    worker.start()
    for scheme in ("light", "dark"):
        driver = browser(1040, 880, scheme)
        driver.get(gateway.admin.url + "dashboard")
        rates = "return document.querySelectorAll('#commands > *').length"
        eventually(lambda: driver.execute_script(rates) > 6, "it shows rates")
        driver.save_screenshot(str(directory / f"dashboard-{scheme}.png"))
        driver.quit()
    is_over.set()
    worker.join()
    gateway.close()
    daemon.close()


def button(directory):
    daemon = Daemon()
    app = App(daemon)
    gateway = Gateway(daemon, origins=[app.origin])
    app.watch = {"resend": "countdown:+4512345678"}
    app.count = 60
    page = next(
        block.text for block in blocks(PROJECT / "docs/tutorial/button.md")
        if block.notes.get("file") == "page.html")  # fmt: skip
    app.pages["/"] = page.replace("http://127.0.0.1:8787/", gateway.url)
    for scheme in ("light", "dark"):
        with daemon.connect() as client:
            client("COUNTDOWN", "CANCEL", "+4512345678")
        driver = browser(320, 130, scheme)
        driver.get(app.origin)
        state = "return document.querySelector('countdown-button').dataset.state"
        eventually(lambda: driver.execute_script(state) == "ready", "it is ready")
        driver.save_screenshot(str(directory / f"button-ready-{scheme}.png"))
        driver.execute_script("document.querySelector('countdown-button button').click()")
        shown = "return document.querySelector('countdown-button').textContent"
        eventually(lambda: "0:59" in driver.execute_script(shown), "it counts")
        driver.save_screenshot(str(directory / f"button-waiting-{scheme}.png"))
        driver.quit()
    gateway.close()
    app.close()
    daemon.close()


if __name__ == "__main__":
    pictures = pathlib.Path(sys.argv[1])
    dashboard(pictures)
    button(pictures)
