"""The programs and commands of the tutorial about the button."""

import base64
import importlib.util
import os
import socket
import subprocess
import sys

import pytest
from selenium.webdriver.common.by import By

from browser import browser, needs_browser, only
from countdownd import PATIENCE, PROJECT, eventually, reserved_port
from countdownd import binary as countdownd
from gateway import binary
from pages import blocks

PAGE = PROJECT / "docs/tutorial/button.md"


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", int(port))) == 0


@needs_browser
def test_the_tutorial_makes_a_correct_button(tmp_path):
    # Other tests run in parallel, so the ports differ from those of the tutorial.
    gateway_port, app_port = (str(reserved_port()) for _ in range(2))
    environment = os.environ | {
        "PATH": f"{countdownd().parent}:{binary().parent}:{os.environ['PATH']}"}
    processes, commands, own_lines = [], [], 0
    for block in blocks(PAGE):
        text = block.text.replace("8787", gateway_port).replace("5000", app_port)
        if "file" in block.notes:
            (tmp_path / block.notes["file"]).write_text(text)
            if block.notes["file"] == "page.html":
                own_lines = len(text.splitlines())
        elif block.language == "console" and "skip" not in block.notes:
            commands += [command for command, _ in block._replace(text=text).commands]
    assert 0 < own_lines <= 20
    gateway_option = f" --listen 127.0.0.1:{gateway_port}"
    try:
        for command in commands:
            command += gateway_option if command.startswith("countdown-gateway") else ""
            process = subprocess.Popen(
                ["bash", "-c", f"exec {command}" if command[0] != "e" else command],
                cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL)  # fmt: skip
            if command.startswith("echo"):
                assert process.wait(timeout=PATIENCE) == 0
            else:
                processes.append(process)
            if command.startswith("countdownd"):
                eventually(lambda: (tmp_path / "login.sock").exists(), "the daemon listens")
        processes.append(subprocess.Popen(
            [sys.executable, "-m", "flask", "run", "--port", app_port],
            cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL))  # fmt: skip
        eventually(lambda: listens(app_port) and listens(gateway_port), "they listen")
        driver = browser()
        try:
            driver.get(f"http://127.0.0.1:{app_port}/")
            button = driver.find_element(By.CSS_SELECTOR, "countdown-button button")
            script = "return document.querySelector('countdown-button').dataset.state"
            eventually(lambda: driver.execute_script(script) == "ready", "it is ready")
            button.click()
            eventually(lambda: button.text.startswith("Send code in "), "it counts")
            driver.refresh()
            eventually(lambda: driver.execute_script(script) == "counting", "it continues")
        finally:
            driver.quit()
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(timeout=PATIENCE)


# How far two pictures are apart, from 0 to 255 for each channel of each pixel.
DISTANCE = """const [one, other, done] = arguments
const load = async data => {
  const picture = new Image()
  picture.src = `data:image/png;base64,${data}`
  await picture.decode()
  const canvas = new OffscreenCanvas(picture.width, picture.height).getContext('2d')
  canvas.drawImage(picture, 0, 0)
  return canvas.getImageData(0, 0, picture.width, picture.height).data
}
Promise.all([load(one), load(other)]).then(([a, b]) => done(
  a.length === b.length ? a.reduce((sum, value, at) => sum + Math.abs(value - b[at]), 0) / a.length : 255))"""


@needs_browser
@only("chromium", "the pictures are of Chromium")
def test_the_pictures_show_what_the_code_shows(tmp_path):
    spec = importlib.util.spec_from_file_location("pictures", PROJECT / "scripts/screenshots-gateway.py")
    pictures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pictures)
    pictures.button(tmp_path)
    driver = browser()
    try:
        made = sorted(tmp_path.iterdir())
        assert len(made) == 4
        for picture in made:
            data = [base64.b64encode(path.read_bytes()).decode()
                    for path in (picture, PROJECT / "docs/images" / picture.name)]  # fmt: skip
            # Fonts and their edges may differ.
            assert driver.execute_async_script(DISTANCE, *data) < 2, picture.name
    finally:
        driver.quit()
