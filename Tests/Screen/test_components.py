"""<countdown-button> and <countdown-hud> in a real browser."""

import gzip

import pytest
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from browser import DRIVER, browser
from countdownd import PROJECT, eventually

pytestmark = pytest.mark.skipif(not DRIVER, reason="chromium-driver is not installed")

PHONE = "+4512345678"
COMPONENTS = PROJECT / "Gateway/Sources/Gateway/Pages"

# A login page as in the tutorial.
BUTTON = """<!doctype html><html lang="en"><title>Login</title>
<script type="module" src="{gateway}components/countdown-button.js"></script>
<input id="field">
<countdown-button alias="resend" ticket="/ticket">Send code</countdown-button>
<script>
let clicks = 0
document.querySelector('countdown-button').addEventListener('click', () => {{
  clicks++
  fetch('/send', {{method: 'POST'}})
}})
</script>"""
HUD = """<!doctype html><html lang="en"><title>HUD</title>
<script type="module" src="{gateway}components/countdown-hud.js"></script>
<button id="below">Below</button>
<countdown-hud alias="hud" ticket="/ticket"></countdown-hud>
<script>
const states = [], taps = []
const hud = document.querySelector('countdown-hud')
hud.addEventListener('hud-change', event => states.push(event.detail.event))
hud.addEventListener('hud-tap', event => taps.push(event.detail.where))
</script>"""


class Page:
    def __init__(self, driver, url):
        self.driver = driver
        driver.get(url)

    def js(self, script):
        return self.driver.execute_script(f"return {script}")

    def part(self, element, selector):
        return self.js(f"document.querySelector('{element}').shadowRoot.querySelector('{selector}')")

    @property
    def button(self):
        return self.part("countdown-button", "button")

    def press(self):
        self.driver.find_element(By.TAG_NAME, "countdown-button").click()

    @property
    def text(self):
        timer = self.part("countdown-button", "[role=timer]").get_attribute("textContent")
        return timer or self.js("document.querySelector('countdown-button').textContent")

    @property
    def is_waiting(self):
        return self.button.get_attribute("aria-disabled") == "true"

    @property
    def said(self):
        return self.part("countdown-button", "[aria-live=polite]").get_attribute("textContent")

    def seconds(self):
        """Returns the seconds that the button shows; 0 when it can be pressed."""
        text = self.text
        return int(text.rpartition(":")[2]) + 60 * int(text.split()[-1].split(":")[0]) if ":" in text else 0


@pytest.fixture
def gateway(app, start_gateway):
    gateway = start_gateway(origins=[app.origin])
    app.watch = {"resend": f"countdown:{PHONE}", "hud": "hud:screen"}
    app.pages = {"/": BUTTON.format(gateway=gateway.url), "/hud": HUD.format(gateway=gateway.url)}
    return gateway


@pytest.fixture
def open_page(app, gateway):
    drivers = []

    def open_page(path="/", script="", **options):
        drivers.append(browser(**options))
        # Runs before the scripts of the page.
        drivers[-1].execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": script})
        page = Page(drivers[-1], app.origin + path)
        assert not [e for e in drivers[-1].get_log("browser") if "favicon" not in e["message"]]
        return page

    yield open_page
    for driver in drivers:
        driver.quit()


def connected(page):
    eventually(lambda: page.js("!!document.querySelector('countdown-button').stream"), "it follows")


# Buttons


def test_each_component_has_at_most_4_kib():
    files = list(COMPONENTS.glob("countdown-*.js"))
    assert len(files) == 3
    for file in files:
        assert len(gzip.compress(file.read_bytes())) <= 4096, file


def test_a_press_starts_the_countdown_and_further_ones_do_nothing(app, open_page):
    page = open_page()
    connected(page)
    assert not page.is_waiting and page.text == "Send code"
    page.press()
    eventually(lambda: page.text.startswith("Send code in "), "it counts")
    assert page.is_waiting
    for _ in range(3):
        page.press()
    ActionChains(page.driver).send_keys(Keys.ENTER, Keys.SPACE).perform()
    assert page.js("clicks") == 1 and app.posts == ["/send"]
    # `disabled` would have taken the focus away.
    assert page.js("document.activeElement.tagName") == "COUNTDOWN-BUTTON"


def test_two_presses_at_once_send_one_code(app, open_page):
    page = open_page()
    connected(page)
    page.driver.execute_script(
        "const b = document.querySelector('countdown-button').button; b.click(); b.click()")
    assert page.js("clicks") == 1


def test_the_button_continues_after_a_refresh(open_page, client):
    client("COUNTDOWN", "START", PHONE, "COUNT", "60")
    page = open_page()
    eventually(lambda: page.seconds() > 0, "it counts")
    before = page.seconds()
    page.driver.refresh()
    eventually(lambda: page.seconds() > 0, "it counts again")
    assert before - 15 <= page.seconds() <= before


@pytest.mark.parametrize("hours", [-1, 1])
def test_the_button_ignores_the_clock_of_the_client(open_page, client, hours):
    client("COUNTDOWN", "START", PHONE, "COUNT", "60")
    page = open_page(script=f"const now = Date.now; Date.now = () => now() + {hours} * 36e5")
    eventually(lambda: page.seconds() > 0, "it counts")
    left = client("COUNTDOWN", "GET", PHONE)
    left = dict(zip(left[::2], left[1::2]))[b"remaining_ms"] / 1000
    assert left - 1 <= page.seconds() <= left + 2


def test_the_button_is_available_at_the_end_and_never_before(open_page, client):
    client("COUNTDOWN", "START", PHONE, "COUNT", "3")
    page = open_page()
    eventually(lambda: page.is_waiting, "it waits")
    eventually(lambda: not page.is_waiting, "it is available")
    view = client("COUNTDOWN", "GET", PHONE)
    assert dict(zip(view[::2], view[1::2]))[b"state"] == b"ready"


def test_screen_readers_are_told_at_the_start_and_at_the_end(open_page, client):
    page = open_page()
    connected(page)
    timer = page.part("countdown-button", "[role=timer]")
    assert timer.get_attribute("aria-live") == "off" and page.said == ""
    client("COUNTDOWN", "START", PHONE, "COUNT", "12")
    eventually(lambda: page.said == "12 seconds left", "the start")
    eventually(lambda: page.said == "10 seconds left", "10 s")
    eventually(lambda: page.seconds() < 9, "it counts")
    assert page.said == "10 seconds left"
    eventually(lambda: page.said == "Send code is available", "the end")


def test_a_pause_and_a_cancellation_are_shown(open_page, client):
    client("COUNTDOWN", "START", PHONE, "COUNT", "60")
    page = open_page()
    eventually(lambda: page.seconds() > 0, "it counts")
    client("COUNTDOWN", "PAUSE", PHONE)
    eventually(lambda: page.seconds() == 0 and page.is_waiting, "it is paused")
    client("COUNTDOWN", "RESUME", PHONE)
    eventually(lambda: page.seconds() > 0, "it counts again")
    client("COUNTDOWN", "CANCEL", PHONE)
    eventually(lambda: not page.is_waiting, "it is available")


def test_two_tabs_show_the_same(app, open_page):
    page, other = open_page(), open_page()
    connected(page)
    connected(other)
    page.press()
    eventually(lambda: page.is_waiting and page.seconds() and other.seconds(), "both count")
    assert abs(page.seconds() - other.seconds()) <= 2
    other.press()
    assert other.js("clicks") == 0 and app.posts == ["/send"]


def test_the_button_survives_the_daemon(open_page, daemon):
    with daemon.connect() as client:
        client("COUNTDOWN", "START", PHONE, "COUNT", "60")
    page = open_page()
    eventually(lambda: page.seconds() > 0, "it counts")
    daemon.kill()
    before = page.seconds()
    eventually(lambda: 0 < page.seconds() < before, "it keeps counting")
    daemon.start_again()
    with daemon.connect() as client:
        client("COUNTDOWN", "CANCEL", PHONE)
    eventually(lambda: not page.is_waiting, "it follows again")


def test_the_button_survives_the_gateway(open_page, gateway, client):
    client("COUNTDOWN", "START", PHONE, "COUNT", "60")
    page = open_page()
    eventually(lambda: page.seconds() > 0, "it counts")
    gateway.stop()
    client("COUNTDOWN", "CANCEL", PHONE)
    assert page.is_waiting
    gateway.start()
    eventually(lambda: not page.is_waiting, "it follows again")


def test_an_expired_ticket_is_replaced(open_page, app, client):
    app.life = 3
    page = open_page()
    connected(page)
    before = app.tickets
    eventually(lambda: app.tickets >= before + 2, "it asks for others")
    client("COUNTDOWN", "START", PHONE, "COUNT", "60")
    eventually(lambda: page.seconds() > 0, "it follows")


def test_a_page_that_comes_back_synchronises_again(open_page, app, client):
    page = open_page()
    connected(page)
    # As after a sleep during which performance.now() was frozen.
    client("COUNTDOWN", "START", PHONE, "COUNT", "60")
    eventually(lambda: page.seconds() > 0, "it counts")
    page.driver.execute_script(
        "const now = performance.now.bind(performance); performance.now = () => now() - 30_000")
    eventually(lambda: page.seconds() > 62, "its clock is wrong")
    page.driver.execute_script("document.dispatchEvent(new Event('visibilitychange'))")
    eventually(lambda: 0 < page.seconds() <= 60, "it is right again")


def test_a_page_that_comes_back_without_a_connection_goes_on_counting(open_page, gateway, client):
    client("COUNTDOWN", "START", PHONE, "COUNT", "60")
    page = open_page()
    eventually(lambda: page.seconds() > 0, "it counts")
    gateway.stop()
    page.driver.execute_script("document.dispatchEvent(new Event('visibilitychange'))")
    for _ in range(3):
        before = page.seconds()
        eventually(lambda: 0 < page.seconds() < before, "it goes on")
    assert page.is_waiting
    page.press()
    assert page.js("clicks") == 0


@pytest.mark.daemon(virtual_time=True)
@pytest.mark.parametrize("hours", [-1, 1])
def test_the_button_ignores_a_clock_of_the_daemon_that_is_set(open_page, client, hours):
    client("COUNTDOWN", "START", PHONE, "COUNT", "60")
    page = open_page()
    eventually(lambda: page.seconds() > 0, "it counts")
    page.driver.execute_script(
        "document.querySelector('countdown-button').addEventListener('countdown-change',"
        " event => window.changed = event.detail.event)")
    client("CLOCK", "SET", f"{hours:+}h")
    # The refusal tells the page the new time of the clock.
    client("COUNTDOWN", "START", PHONE)
    eventually(lambda: page.js("window.changed") == "refused", "it knows")
    assert page.is_waiting and 0 < page.seconds() <= 60


# HUDs


def test_a_hud_appears_progresses_and_disappears(open_page, client):
    page = open_page("/hud")
    panel = page.part("countdown-hud", "[part=panel]")
    assert not panel.is_displayed()
    client("HUD", "SHOW", "screen", "STATUS", "Loading…", "MASK", "black", "FADEIN", "0", "MIN", "0")
    eventually(lambda: panel.is_displayed(), "it appears")
    assert panel.text == "Loading…" and panel.get_attribute("role") == "status"
    client("HUD", "PROGRESS", "screen", "0.5")
    progress = page.part("countdown-hud", "progress")
    eventually(lambda: progress.is_displayed(), "it shows progress")
    assert progress.get_attribute("value") == "0.5"
    client("HUD", "DISMISS", "screen")
    eventually(lambda: not panel.is_displayed(), "it disappears")
    events = page.js("states")
    assert events.index("will-appear") < events.index("did-appear")
    assert events.index("will-disappear") < events.index("did-disappear")


def test_a_mask_keeps_clicks_from_the_page(open_page, client):
    page = open_page("/hud")
    below = page.driver.find_element(By.ID, "below")
    page.driver.execute_script("window.clicks = 0; below.onclick = () => clicks++")
    below.click()
    client("HUD", "SHOW", "screen", "MASK", "clear", "FADEIN", "0")
    state = "document.querySelector('countdown-hud').dataset.state"
    eventually(lambda: page.js(state) == "visible", "it is visible")
    page.driver.execute_script(
        "const box = below.getBoundingClientRect();"
        "window.hit = document.elementFromPoint(box.x + 5, box.y + 5).tagName")
    assert page.js("hit") == "COUNTDOWN-HUD"
    page.part("countdown-hud", "[part=panel]").click()
    page.driver.execute_script("hud.click()")
    assert page.js("taps") == ["inside", "outside"] and page.js("clicks") == 1


def test_texts_are_never_html(open_page, client):
    client("HUD", "SHOW", "screen", "STATUS", "<img src=x onerror=alert(1)>", "FADEIN", "0")
    page = open_page("/hud")
    panel = page.part("countdown-hud", "[part=panel]")
    eventually(lambda: panel.is_displayed(), "it appears")
    assert panel.text == "<img src=x onerror=alert(1)>"


# The dashboard


def test_the_dashboard_shows_the_daemon_live(start_gateway, client):
    gateway = start_gateway("--dashboard")
    client("COUNTDOWN", "START", PHONE, "COUNT", "60")
    client("TIMER", "SET", "<img src=x onerror=alert(1)>", "1ms")
    driver = browser()
    try:
        page = Page(driver, gateway.url + "dashboard")
        status = driver.find_element(By.ID, "status")
        eventually(lambda: status.text == "Live", "it is live")
        main = driver.find_element(By.TAG_NAME, "main")
        assert PHONE not in main.text and "<img" not in main.text
        rows = [row.text for row in driver.find_elements(By.CSS_SELECTOR, "#events tr")]
        assert any("countdown started" in row for row in rows)
        entities = driver.find_element(By.ID, "entities")
        assert "countdown" in entities.text
        for number in range(7):
            client("COUNTDOWN", "START", f"other-{number}")
        counts = "[...document.querySelectorAll('#entities span')].map(e => e.textContent)"
        eventually(lambda: page.js(counts)[1] == "8", "it follows")
        assert not [e for e in driver.get_log("browser") if "favicon" not in e["message"]]
        headers = gateway.ask("/dashboard")[1]
        assert "script-src 'self'" in headers["Content-Security-Policy"]
        assert "unsafe" not in headers["Content-Security-Policy"]
    finally:
        driver.quit()


def test_other_sites_cannot_read_the_dashboard(start_gateway):
    gateway = start_gateway("--dashboard")
    assert gateway.problem("/dashboard/data", headers={"Sec-Fetch-Site": "cross-site"})[0] == 403
    assert gateway.problem("/dashboard/data", headers={"Origin": "https://evil.example"})[0] == 403
