#!/usr/bin/env python3
"""screenshots-showcase.py DIRECTORY - pictures of the showcase, for docs/images.

Each screen, light and dark, on a desktop; and one on a phone. Needs pngquant, the daemon, the
showcase, and what scripts/integration-test.sh installs: run it with .build/venv/bin/python.
"""

import pathlib
import subprocess
import sys

PROJECT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(PROJECT / "Tests" / folder) for folder in ("Integration", "Screen")]

from countdownd import eventually  # noqa: E402
from test_showcase import Showcase  # noqa: E402

directory = pathlib.Path(sys.argv[1])


def login(showcase):
    showcase.press("[data-do=orders]")
    showcase.until_top("login")
    showcase.find("#send").click()
    showcase.says("your code is")
    eventually(lambda: "Attempts left" in showcase.find("#why").text, "the policy is explained")


def weather(showcase):
    showcase.go("list")
    eventually(lambda: showcase.js("document.querySelectorAll('#items li').length") == 3, "the cities")
    showcase.until_hud("hidden")


def form(showcase):
    showcase.go("form")
    showcase.press("form button")
    showcase.until_hud("visible")


def swipes(showcase):
    showcase.go("swipes")
    showcase.go("anywhere")
    showcase.drag(150, x=30, release=False)
    eventually(lambda: "swipe," in showcase.find("#transition").text, "it moves")


def taps(showcase):
    showcase.go("taps")
    eventually(lambda: "handles taps" in showcase.find("#scopes").text, "the page handles taps")
    showcase.press("[data-do=tap-row][data-page=row-2]")
    showcase.until_hud("visible")


def indicators(showcase):
    showcase.go("huds")
    showcase.press("[data-do=stuck]")
    showcase.until_hud("visible")
    showcase.until_hud("hidden")
    showcase.press("[data-ms='3000']")
    showcase.until_hud("visible")
    eventually(lambda: showcase.js("document.querySelectorAll('.bar.min').length"), "its bars")


def take(screen, name, scheme, *size):
    showcase = Showcase()
    try:
        showcase.open(*size, scheme)
        screen(showcase)
        showcase.driver.execute_script("document.activeElement.blur()")
        showcase.driver.execute_script("document.documentElement.style.scrollbarWidth = 'none'")
        file = directory / f"showcase-{name}-{scheme}.png"
        showcase.driver.save_screenshot(str(file))
        subprocess.run(["pngquant", "--force", "--ext", ".png", "48", file], check=True)
    finally:
        showcase.close()


for scheme in ("light", "dark"):
    for screen in (login, weather, form, swipes, taps, indicators):
        take(screen, screen.__name__, scheme, 1120, 780)
    take(indicators, "phone", scheme, 390, 1180)
