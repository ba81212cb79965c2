"""Uses the showcase (`make showcase`) as a person does: with mouse, finger and keyboard.

Each test checks the page, and the daemon through its socket.
"""

import contextlib
import http.client
import pathlib
import re
import subprocess

import pytest
from selenium.common.exceptions import ElementNotInteractableException
from selenium.webdriver import ActionChains
from selenium.webdriver.common.actions import interaction
from selenium.webdriver.common.actions.action_builder import ActionBuilder
from selenium.webdriver.common.actions.pointer_input import PointerInput
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from browser import browser, needs_browser
from countdownd import PATIENCE, PROJECT, Client, Closed, Error, eventually, reserved_port, view
from countdownd import binary as countdownd
from web import CLOCKS

pytestmark = needs_browser


class Showcase:
    """`make showcase`, its page, and its daemon."""

    def __init__(self):
        self.port = str(reserved_port())
        self.process = subprocess.Popen(
            [PROJECT / "Gateway/.build/debug/showcase", countdownd(), "--port", self.port],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)  # fmt: skip
        self.url = re.search(r"http://\S+", self.process.stdout.readline())[0]
        self.socket = pathlib.Path(self.process.stdout.readline().split("=")[1].strip())
        self.driver = None

    def open(self, *size):
        self.driver = browser(*size)
        self.driver.get(self.url)
        self.until_top("home")
        eventually(lambda: self.status == "Live", "it is live")
        self.driver.execute_script("""window.changes = []
          document.getElementById('hud').addEventListener(
            'hud-change', event => changes.push(event.detail.event))""")

    def close(self):
        if self.driver:
            self.driver.quit()
        self.process.terminate()
        assert self.process.wait(timeout=PATIENCE) == 0
        assert not self.socket.parent.exists()

    # The daemon

    def ask(self, *words):
        with Client(self.socket) as client:
            return client(*words)

    def view(self, *words):
        """Returns a view; an empty one if there is no entity."""
        reply = self.ask(*words)
        return view(reply) if reply else {}

    @property
    def stack(self):
        return [page.decode() for page in self.view("NAV", "GET", "phone").get("pages", [])]

    @property
    def scopes(self):
        reply = self.ask("SCOPE", "TREE", "phone")
        return [view(scope)["key"].decode() for scope in reply[1]] if type(reply) is list else []

    # The page

    def js(self, script, *arguments):
        return self.driver.execute_script(f"return {script}", *arguments)

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    @property
    def status(self):
        return self.find("#status").text

    @property
    def said(self):
        return self.find("#said").text

    @property
    def top(self):
        """The page that is visible and enabled."""
        return self.js(
            "[...document.querySelectorAll('article')].filter(a => !a.hidden && !a.inert)"
            ".map(a => a.dataset.page).join()")

    def until_top(self, page):
        """Waits until the page is on top, in browser and daemon, and the transition is over."""
        eventually(lambda: self.top == page, f"the phone shows {page}")
        eventually(
            lambda: self.stack[-1:] == [page]
            and self.view("NAV", "GET", "phone")["state"] == b"settled", f"{page} is on the stack")
        eventually(lambda: not self.js("document.getElementById('stack').dataset.transition"), "it moves")

    def press(self, selector):
        self.find(f"article.top {selector}").click()

    def go(self, page):
        self.press(f"[data-page={page}]")
        self.until_top(page)

    def says(self, text):
        eventually(lambda: text in self.said, f"it says {text!r}, not {self.said!r}")

    def choose(self, name, value):
        self.press(f"input[name={name}][value={value}]")

    @property
    def send(self):
        """The state of the button that sends a code."""
        return self.find("countdown-button").get_attribute("data-state")

    @property
    def hud(self):
        """The state of the HUD on the page."""
        return self.js("document.getElementById('hud').dataset.state")

    @property
    def hud_text(self):
        return self.js("document.getElementById('hud').shadowRoot.querySelector('[part=status]').textContent")

    def until_hud(self, *states):
        eventually(lambda: self.hud in states, f"the HUD is {states}")

    @property
    def changes(self):
        """The changes of the HUD since `forget`, as it may be over when a busy machine looks."""
        return self.js("window.changes")

    def forget(self):
        self.js("changes.length = 0")

    def until_change(self, event):
        eventually(lambda: event in self.changes, f"the HUD {event}")

    def drag(self, dx, x=200, kind=interaction.POINTER_MOUSE, release=True):
        """Drags the top page by `dx` pixels, starting `x` pixels from the left edge."""
        box = self.find("#stack").rect
        actions = ActionBuilder(self.driver, mouse=PointerInput(kind, kind), duration=20)
        pointer = actions.pointer_action
        pointer.move_to_location(int(box["x"] + x), int(box["y"] + box["height"] - 40))
        pointer.pointer_down()
        for part in range(1, 6):
            pointer.move_to_location(
                int(box["x"] + x + dx * part / 5), int(box["y"] + box["height"] - 40))
        if release:
            pointer.pointer_up()
        actions.perform()


@pytest.fixture
def showcase():
    showcase = Showcase()
    try:
        showcase.open()
        yield showcase
        errors = [text for _, text in showcase.driver.console()]
        # Requests may fail while the daemon or the connection is down.
        assert not [e for e in errors if "favicon" not in e and "Failed to load resource" not in e]
    finally:
        showcase.close()


def test_a_login_runs_what_was_wanted_before(showcase):
    showcase.press("[data-do=orders]")
    showcase.until_top("login")
    gate = showcase.view("GATE", "GET", "session")
    assert (gate["state"], gate["action"]) == (b"pending", b"orders")
    send = showcase.find("#send")
    eventually(lambda: showcase.send == "ready", "it can be pressed")
    send.click()
    showcase.says("your code is")
    code = re.search(r"\d{6}", showcase.said)[0]
    eventually(lambda: showcase.view("COUNTDOWN", "GET", "login")["state"] == b"counting", "it counts")
    eventually(lambda: showcase.send == "counting", "it cannot be pressed")
    send.click()
    assert showcase.view("COUNTDOWN", "GET", "login")["sends"] == 1
    field = showcase.find("input[name=code]")
    field.send_keys("000000", Keys.ENTER)
    showcase.says("Attempts left: 2")
    assert showcase.view("COUNTDOWN", "GET", "login")["attempts_left"] == 2
    eventually(lambda: "Attempts left: 2" in showcase.find("#why").text, "the policy is explained")
    field.clear()
    field.send_keys(code, Keys.ENTER)
    showcase.until_top("orders")
    showcase.says("What you wanted before runs now")
    assert showcase.stack == ["home", "orders"]
    gate = showcase.view("GATE", "GET", "session")
    assert (gate["state"], gate["action"]) == (b"open", None)
    # The session is open, so no login is needed.
    showcase.press(".back")
    showcase.until_top("home")
    showcase.press("[data-do=orders]")
    showcase.until_top("orders")
    showcase.press("[data-do=logout]")
    showcase.until_top("home")
    assert not showcase.view("GATE", "GET", "session")


def test_a_login_that_is_cancelled_runs_nothing(showcase):
    showcase.press("[data-do=orders]")
    showcase.until_top("login")
    showcase.press(".back")
    showcase.until_top("home")
    assert not showcase.view("GATE", "GET", "session")


def test_the_list_loads_refreshes_silently_fails_and_retries(showcase):
    shown = lambda: showcase.js("shown()")  # noqa: E731
    state = lambda: showcase.view("PAGE", "GET", "list").get("state")  # noqa: E731
    # What the list shows after each change.
    showcase.driver.execute_script("""
      const list = document.getElementById('list')
      window.shown = () =>
        [...list.children].filter(one => one.offsetParent).map(one => one.id || one.dataset.for)
      window.looks = []
      new MutationObserver(() => {
        const now = shown().join()
        if (looks.at(-1) !== now) looks.push(now)
      }).observe(list, {subtree: true, attributeFilter: ['hidden']})""")
    showcase.go("list")
    # The first load is slow enough for the HUD.
    showcase.until_change("will-appear")
    eventually(lambda: state() == b"content" and shown() == ["items"], "it has loaded")
    eventually(lambda: showcase.js("document.querySelectorAll('#items li').length") == 3, "the cities")
    showcase.until_hud("hidden")
    # A refresh keeps what is shown, without a HUD.
    showcase.forget()
    showcase.press("#refresh")
    eventually(lambda: showcase.js("looks.join(' ')").endswith("items,refreshing items"), "it has refreshed")
    assert state() == b"content" and not showcase.changes
    # An empty answer.
    showcase.choose("answer", "nothing")
    showcase.press("#refresh")
    eventually(lambda: state() == b"empty" and shown() == ["empty"], "it is empty")
    # An error.
    showcase.choose("answer", "error")
    showcase.press("#retry")
    eventually(lambda: state() == b"error" and shown() == ["error"], "it has failed")
    assert showcase.find("#error").text == "The server answered 503."
    # No answer at all.
    showcase.choose("answer", "never")
    showcase.press("#retry")
    late = "The server did not answer in time."
    eventually(lambda: showcase.find("#error").text == late, "it has timed out")
    assert state() == b"error" and shown() == ["error"]
    showcase.choose("answer", "items")
    showcase.press("#retry")
    eventually(lambda: state() == b"content" and shown() == ["items"], "it has loaded")


def test_a_form_is_masked_and_sent_once(showcase):
    showcase.press("[data-page=form]")
    showcase.until_top("form")
    field = showcase.find("input[name=text]")
    field.clear()
    # What the page shows in each frame: the state, the mask, and what is at the place of the button.
    showcase.driver.execute_script("""
      const [hud, stack, seen] = [document.getElementById('hud'), document.getElementById('stack'), []]
      const button = document.querySelector('article.top form button')
      const look = () => {
        const box = button.getBoundingClientRect()
        const hit = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2)
        seen.push([hud.dataset.state, hud.dataset.mask, stack.inert, hit?.id].join(' '))
        requestAnimationFrame(look)
      }
      look()
      window.seen = seen""")
    # Two submits at once, before the page can redraw.
    showcase.driver.execute_script(
        "arguments[0].value = 'Two lamps'; const form = arguments[0].form;"
        "form.requestSubmit(); form.requestSubmit()", field)
    eventually(lambda: showcase.js("seen.includes('visible black true hud')"), "a mask covers the form")
    once = eventually(
        lambda: (found := showcase.view("ONCE", "GET", "order")).get("state") == b"done" and found,
        "it is sent")
    assert once["result"] == b"Order 1: Two lamps"
    eventually(lambda: showcase.hud_text == "Sent", "the phone says so")
    showcase.until_hud("hidden")
    assert not showcase.js("document.getElementById('stack').inert")
    showcase.find("article.top form button").send_keys(Keys.ENTER)
    showcase.says("Not sent again: Order 1: Two lamps")
    showcase.press("#another")
    eventually(lambda: not showcase.view("ONCE", "GET", "order"), "the next one is another")
    field.send_keys(Keys.ENTER)
    eventually(
        lambda: showcase.view("ONCE", "GET", "order").get("result") == b"Order 2: Two lamps", "it is sent")


@pytest.mark.parametrize("kind", [interaction.POINTER_MOUSE, interaction.POINTER_TOUCH])
def test_a_swipe_back_is_finished_or_cancelled(showcase, kind):
    showcase.go("swipes")
    showcase.go("anywhere")
    showcase.drag(60, kind=kind)
    eventually(lambda: "cancelled" in showcase.find("#log").text, "it is cancelled")
    showcase.until_top("anywhere")
    assert showcase.stack == ["home", "swipes", "anywhere"]
    # The driver lifts the finger after each command, so only the mouse can stay down here.
    is_mouse = kind == interaction.POINTER_MOUSE
    showcase.drag(240, x=20, kind=kind, release=not is_mouse)
    if is_mouse:
        # The page follows the pointer, and so does the daemon.
        stack = eventually(
            lambda: (found := showcase.view("NAV", "GET", "phone")).get("fraction") and found, "it moves")
        assert stack["transition"] == b"swipe"
        eventually(lambda: 0 < float(showcase.js(
            "document.getElementById('stack').style.getPropertyValue('--shift')")) < 1, "it is drawn")
        let_go = ActionBuilder(showcase.driver, mouse=PointerInput(kind, kind))
        let_go.pointer_action.pointer_up()
        let_go.perform()
    showcase.until_top("swipes")
    assert showcase.stack == ["home", "swipes"] and "anywhere" not in showcase.scopes


@pytest.mark.parametrize(
    "page, reason",
    [
        ("edge", "it did not begin at the edge"), ("locked", "the page forbids it"),
        ("modal", "the page was presented")],
)  # fmt: skip
def test_pages_refuse_a_swipe_back(showcase, page, reason):
    showcase.go("swipes")
    showcase.go(page)
    showcase.drag(120)
    showcase.says(f"Refused: {reason}.")
    assert showcase.stack == ["home", "swipes", page] and showcase.top == page
    # The back button still works; so does a swipe from the edge.
    if page == "edge":
        showcase.drag(200, x=10)
    else:
        showcase.press(".back")
    showcase.until_top("swipes")


def test_a_tap_travels_until_a_scope_takes_it(showcase):
    showcase.go("taps")
    assert showcase.scopes == ["phone", "home", "taps", "table", "row-1", "row-2", "row-3"]
    for taker, row, path, text in [
        ("taps", "row-2", "phone taps table row-2 table taps", "taps took the tap on row-2, going up"),
        ("capture", "row-1", "phone", "phone took the tap on row-1, going down"),
        ("row-1", "row-1", "phone taps table row-1", "row-1 took the tap on row-1, going up"),
    ]:
        showcase.choose("taker", taker)
        scope = "phone" if taker == "capture" else taker
        handles = lambda: [  # noqa: E731
            name for name in showcase.scopes if showcase.view("SCOPE", "GET", name)["handlers"]]
        eventually(lambda: handles() == [scope], f"{scope} handles taps")
        eventually(lambda: showcase.find(f"#scopes [data-scope={scope}]").text.endswith("handles taps"),
                   "the page shows it")
        showcase.press(f"[data-do=tap-row][data-page={row}]")
        eventually(lambda: showcase.find("#scopes").get_attribute("data-path") == path, "it lights up")
        eventually(lambda: showcase.hud_text == text, text)
        showcase.until_hud("hidden")
    # Now no scope above the second row handles taps.
    showcase.press("[data-do=tap-row][data-page=row-2]")
    showcase.says("Nobody took the tap.")
    # The app releases the object of a row: its scope closes.
    showcase.press("[data-do=remove-row][data-page=row-3]")
    eventually(lambda: "row-3" not in showcase.scopes, "the scope is closed")
    eventually(lambda: "row-3" not in showcase.find("#scopes").text, "the page shows it")
    showcase.press(".back")
    showcase.until_top("home")
    eventually(lambda: showcase.scopes == ["phone", "home"], "what was below has closed, too")


def test_indicators_appear_only_for_long_work_and_are_dismissed(showcase):
    showcase.go("huds")
    part = lambda name: showcase.js(  # noqa: E731
        f"document.getElementById('hud').shadowRoot.querySelector('[part={name}]')")

    def bars_after(selector, act=None):
        """Presses a button, calls `act` once its HUD has appeared, and waits until that is over."""
        showcase.forget()
        showcase.press(selector)
        if act:
            showcase.until_change("did-appear")
            act()
        eventually(lambda: showcase.changes[-1:] == ["did-disappear"], "it is over")
        return showcase.js("[...document.querySelectorAll('.bar')].map(one => one.className)")

    # On a busy machine, work may take longer, a HUD may be late for its bars, or over before a tap.
    def short_work():
        bars_after("[data-ms='200']")
        return "will-appear" not in showcase.changes

    eventually(short_work, "short work has no HUD")
    eventually(lambda: set(bars_after("[data-ms='700']")) == {"bar grace", "bar hud", "bar min"}, "bars")
    assert showcase.changes[-4:] == ["will-appear", "did-appear", "will-disappear", "did-disappear"]

    def tap_beside():
        bars_after("[data-ms='3000']", showcase.find("article.top h2").click)
        return "touched" in showcase.changes

    eventually(tap_beside, "a tap beside a HUD arrives")
    assert showcase.view("HUD", "GET", "phone").get("state") in (None, b"hidden")

    # Messages, dismissed by a tap or the keyboard.
    def dismissed(kind, text):
        hud = {}

        def dismiss():
            assert showcase.hud_text == text
            hud.update(showcase.view("HUD", "GET", "phone"))
            if kind == "error":
                ActionChains(showcase.driver).send_keys(Keys.ESCAPE).perform()
                return
            with contextlib.suppress(ElementNotInteractableException):
                part("panel").click() if kind == "info" else part("panel").send_keys(Keys.ENTER)

        bars_after(f"[data-do=message][data-page={kind}]", dismiss)
        shown = (hud.get("kind"), hud.get("status")) == (kind.encode(), text.encode())
        return shown and "touched" in showcase.changes

    for kind, text in [("info", "Two messages are new"), ("success", "Saved"), ("error", "The disk is full")]:
        eventually(lambda: dismissed(kind, text), f"a message is dismissed: {text}")
    # Progress, and work that hangs.
    showcase.driver.execute_script("""window.values = []
      const bar = arguments[0]
      document.getElementById('hud').addEventListener('hud-change', () => values.push(bar.value))""",
      part("progress"))
    bars_after("[data-do=upload]")
    assert 0.5 <= max(showcase.js("values")) <= 1, "it progresses"
    eventually(lambda: "bar max" in bars_after("[data-do=stuck]"), "its maximum is drawn")
    assert "timed-out" in showcase.find("#log").text


def test_a_lost_connection_recovers_and_misses_nothing(showcase):
    showcase.press("[data-do=orders]")
    showcase.until_top("login")
    # The outage lasts until the clock of the page is moved.
    showcase.driver.execute_script(CLOCKS)
    showcase.find("#drop").click()
    eventually(lambda: "Your connection is lost" in showcase.status, "it says so")
    is_offline = lambda: "offline" in showcase.find("#phone").get_attribute("class")  # noqa: E731
    eventually(is_offline, "the phone shows that it is offline")
    # A change in the daemon during the outage.
    assert showcase.view("COUNTDOWN", "START", "login", "COUNT", "600")["accepted"]
    showcase.press(".back")
    showcase.says("You are offline.")
    showcase.driver.execute_script("skew += 3_000; dispatchEvent(new Event('online'))")
    eventually(lambda: "Connected again after" in showcase.status, "it recovers")
    eventually(lambda: showcase.send == "counting" and not is_offline(), "the button follows")
    assert "started" in showcase.find("#log").text
    showcase.press(".back")
    showcase.until_top("home")


def test_two_tabs_show_the_same(showcase):
    first = showcase.driver.current_window_handle
    showcase.driver.switch_to.new_window("tab")
    showcase.driver.get(showcase.url)
    eventually(lambda: showcase.status == "Live", "it is live")
    showcase.until_top("home")
    showcase.go("swipes")
    showcase.driver.switch_to.window(first)
    showcase.until_top("swipes")
    # One tab reads the stream for both. When it is closed, the other one takes over.
    showcase.driver.close()
    showcase.driver.switch_to.window(showcase.driver.window_handles[0])
    showcase.go("edge")


def test_the_gallery_has_languages_and_a_mask_that_holds(showcase):
    showcase.driver.get(f"{showcase.url}/gallery")
    shown = "document.querySelector('[lang=pl] button').textContent.trim()"
    eventually(lambda: showcase.js(shown).startswith("Wyślij kod za 1 dzień 2:03:0"), "it speaks Polish")
    showcase.find("#mask").click()
    at = "document.elementFromPoint(innerWidth / 2, innerHeight / 2)?.id"
    eventually(lambda: showcase.js("document.getElementById('later').open"), "a dialog opens")
    eventually(lambda: showcase.js(at) == "page", "below the mask")
    eventually(lambda: showcase.js(at) in ("later", "told"), "the mask is over")
    showcase.find("#later button").click()
    assert not showcase.js("document.getElementById('later').open")


def test_a_daemon_that_is_killed_recovers(showcase):
    showcase.press("[data-do=orders]")
    showcase.until_top("login")
    showcase.find("#send").click()
    showcase.says("your code is")
    code = re.search(r"\d{6}", showcase.said)[0]
    countdown = showcase.view("COUNTDOWN", "GET", "login")
    pid = lambda: int(re.search(r"process_id:(\d+)", showcase.ask("INFO", "server").decode())[1])  # noqa: E731
    before = pid()
    showcase.find("#kill").click()
    eventually(lambda: "The daemon is back after" in showcase.status, "it recovers")
    assert pid() != before
    eventually(lambda: f"pid {pid()}, started 2 times" in showcase.find("#pid").text, "another process")
    after = showcase.view("COUNTDOWN", "GET", "login")
    # Persisted entities continue.
    assert [after[name] for name in ("generation", "sends", "deadline_unix_ms")] == [
        countdown[name] for name in ("generation", "sends", "deadline_unix_ms")]
    assert showcase.view("GATE", "GET", "session")["action"] == b"orders"
    # The app has restored the rest, and the phone shows the same page.
    showcase.until_top("login")
    showcase.find("input[name=code]").send_keys(code, Keys.ENTER)
    showcase.until_top("orders")


def test_a_form_is_sent_once_although_the_daemon_is_killed(showcase):
    showcase.go("form")
    showcase.press("form button")
    showcase.until_change("did-appear")
    showcase.find("#kill").click()
    once = eventually(
        lambda: (found := view_if_up(showcase, "ONCE", "GET", "order")).get("state") == b"done" and found,
        "it is sent")
    assert once["result"] == b"Order 1: Two chairs"
    eventually(lambda: showcase.hud_text == "Sent", "the phone says so")
    showcase.until_hud("hidden")
    showcase.press("form button")
    showcase.says("Not sent again: Order 1: Two chairs")


def view_if_up(showcase, *words):
    try:
        with Client(showcase.socket) as client:
            reply = client.either("LOADING", *words)
    except (OSError, Closed):
        return {}
    return {} if reply is None or isinstance(reply, Error) else view(reply)


def test_the_keyboard_reaches_everything(showcase):
    showcase.find("article.top [data-page=swipes]").send_keys(Keys.ENTER)
    showcase.until_top("swipes")
    focused = lambda: showcase.js("document.activeElement.textContent")  # noqa: E731
    # The focus moves to the new page, and cannot reach those below.
    eventually(lambda: focused() == "Swipes", "its title has the focus")
    ActionChains(showcase.driver).send_keys(Keys.TAB).perform()
    assert focused() == "From anywhere"
    ActionChains(showcase.driver).send_keys(Keys.ENTER).perform()
    showcase.until_top("anywhere")
    ActionChains(showcase.driver).key_down(Keys.SHIFT).send_keys(Keys.TAB).key_up(Keys.SHIFT).perform()
    assert focused() == "Back"
    ActionChains(showcase.driver).send_keys(Keys.ENTER).perform()
    showcase.until_top("swipes")
    roles = showcase.js(
        "['status', 'said'].map(id => document.getElementById(id).getAttribute('role'))")
    assert roles == ["status", "status"]


def test_the_page_allows_only_its_own_scripts_and_other_sites_nothing(showcase):
    def ask(method="GET", path="/", **headers):
        connection = http.client.HTTPConnection("127.0.0.1", int(showcase.port), timeout=PATIENCE)
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        answer.read()
        return answer

    policy = ask().headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self' ") and "unsafe" not in policy
    assert ask("POST", "/do/kill", Origin="https://evil.example").status == 403
    assert ask(Host="evil.example").status == 403
    assert showcase.find("#pid").text.endswith("started once")


def test_the_page_fits_a_phone(showcase):
    showcase.driver.quit()
    showcase.open(390, 844)
    assert showcase.js("document.documentElement.scrollWidth") <= 390
    showcase.go("huds")
    assert showcase.js("document.documentElement.scrollWidth") <= 390


def test_killed_it_leaves_no_daemon_and_no_files():
    showcase = Showcase()
    eventually(lambda: showcase.socket.exists(), "the daemon listens")
    pid = int(re.search(r"process_id:(\d+)", showcase.ask("INFO", "server").decode())[1])
    showcase.process.kill()
    showcase.process.wait()
    eventually(lambda: not pathlib.Path(f"/proc/{pid}").exists(), "the daemon has ended")
    eventually(lambda: not showcase.socket.parent.exists(), "its folder is removed")
