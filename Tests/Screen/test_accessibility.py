"""axe-core in each state and colour scheme, and the keyboard alone."""

import pytest
from selenium.webdriver import ActionChains
from selenium.webdriver.common.keys import Keys

from browser import needs_browser
from countdownd import PROJECT, eventually
from web import PHONE

# `make test-screen` installs the wheel that has it.
AXE = PROJECT / ".build/axe/axe_playwright_python/axe.min.js"

pytestmark = [
    needs_browser,
    pytest.mark.skipif(not AXE.exists(), reason="axe-core is there after `make test-screen`"),
]

GALLERY = PROJECT / "Gateway/Sources/showcase/Pages"
SCHEMES = {
    "light": {"prefers-color-scheme": "light"},
    "dark": {"prefers-color-scheme": "dark"},
    "forced": {"forced-colors": "active", "prefers-color-scheme": "dark"},
}


def emulate(page, scheme):
    # axe would measure the contrast of a HUD that fades in.
    page.driver.emulate(SCHEMES[scheme] | {"prefers-reduced-motion": "reduce"})


def findings(page):
    if not page.js("!!window.axe"):
        page.run(AXE.read_text())
    page.driver.set_script_timeout(60)
    return page.driver.execute_async_script(
        "axe.run().then(result => arguments[0](result.violations.map("
        "one => one.id + ': ' + one.nodes.map(node => node.html).join(' '))))")


def gallery(app):
    app.pages["/gallery"] = (GALLERY / "gallery.html").read_text().replace("{gateway}/components", "/static/1")
    for name in ("gallery.js", "gallery.css"):
        app.pages[f"/{name}"] = (GALLERY / name).read_text()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_axe_finds_nothing_in_the_gallery(app, open_page, scheme):
    gallery(app)
    page = open_page("/gallery")
    emulate(page, scheme)
    eventually(lambda: page.js("document.querySelectorAll('[data-state=counting]').length > 5"), "it is there")
    assert findings(page) == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_axe_finds_nothing_in_any_state(site, open_page, client, scheme):
    page = open_page()
    emulate(page, scheme)
    page.until("ready")
    assert findings(page) == []
    for command, state in (("START", "counting"), ("PAUSE", "paused")):
        client("COUNTDOWN", command, PHONE, *(["COUNT", "600"] if command == "START" else []))
        page.until(state)
        assert findings(page) == []
    site.gateway.stop()
    page.until("unknown")
    assert findings(page) == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_axe_finds_nothing_under_a_hud(site, open_page, client, scheme):
    page = open_page("/hud")
    emulate(page, scheme)
    page.run("hud.patience = 1")
    for mask in ("none", "black", "gradient", "clear"):
        for words in ([], ["STATUS", "Uploading"]):
            client("HUD", "SHOW", "screen", "GRACE", "0", "FADEIN", "0", "MIN", "0", "MASK", mask, *words)
            eventually(lambda: page.hud == "visible" and page.js("hud.dataset.mask") == mask, "it is visible")
            assert findings(page) == [], (mask, words)
            client("HUD", "DISMISS", "screen")
            eventually(lambda: page.hud == "hidden", "it is hidden")
    client("HUD", "SHOW", "screen", "GRACE", "0", "FADEIN", "0", "MASK", "black")
    eventually(lambda: page.hud == "visible", "it is visible")
    client("HUD", "PROGRESS", "screen", "0.5")
    eventually(lambda: page.part("progress").is_displayed(), "it has progress")
    assert findings(page) == []
    site.gateway.stop()
    eventually(lambda: page.js("hud.hasAttribute('data-released')"), "it is released")
    assert findings(page) == []


def test_the_keyboard_alone_is_enough(site, open_page, client):
    page = open_page()
    page.until("ready")
    keys = ActionChains(page.driver)
    keys.send_keys(Keys.TAB, Keys.TAB, Keys.ENTER).perform()
    page.until("counting")
    # The focus stays, and the keys do nothing.
    keys.send_keys(Keys.ENTER, Keys.SPACE).perform()
    assert page.js("clicks") == 1 and page.js("document.activeElement.tagName") == "BUTTON"
    client("COUNTDOWN", "CANCEL", PHONE)
    page.until("ready")
    keys.send_keys(Keys.SPACE).perform()
    page.until("counting")
    assert page.js("clicks") == 2
    # It is one stop of the tabulator.
    ActionChains(page.driver).key_down(Keys.SHIFT).send_keys(Keys.TAB).key_up(Keys.SHIFT).perform()
    assert page.js("document.activeElement.id") == "field"
