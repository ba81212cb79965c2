"""Networks, servers, clocks and pages that misbehave, in a real browser."""

import json
import signal

import pytest

from browser import needs_browser, only
from countdownd import eventually
from gateway import COMPONENTS, App, ticket
from web import CLOCKS, PHONE

pytestmark = needs_browser

HOUR = 3_600_000


def counting(page):
    """Waits until the button counts, and returns its seconds."""
    eventually(lambda: page.seconds() > 0, "it counts")
    return page.seconds()


def goes_on(page):
    before = page.seconds()
    page.passes(2)
    eventually(lambda: 0 < page.seconds() <= before - 2, "it continues to count")


# Servers


def test_the_button_works_while_the_gateway_is_down_at_the_start(site, open_page):
    site.gateway.stop()
    page = open_page()
    eventually(lambda: page.is_offline, "it is offline")
    page.press()
    page.press()
    assert page.js("clicks") == 2 and page.state == "unknown" and page.text == "Send code"
    site.gateway.start()
    # Both presses were the app's to judge.
    page.until("counting")
    assert not page.is_offline


@pytest.mark.parametrize("time", [600_000, HOUR])
@pytest.mark.parametrize("lost", ["gateway", "daemon", "network"])
def test_the_button_counts_to_its_end_without_a_connection(site, open_page, daemon, lost, time):
    with daemon.connect() as client:
        client("COUNTDOWN", "START", PHONE, "COUNT", str(time // 1_000 + 60))
    page = open_page(script=CLOCKS)
    before = counting(page)
    if lost == "gateway":
        site.gateway.stop()
    elif lost == "daemon":
        daemon.kill()
    else:
        # Connections stay open, and nothing arrives.
        site.gateway.process.send_signal(signal.SIGSTOP)
    page.passes(before - 60)
    eventually(lambda: page.is_offline, "it is offline")
    eventually(lambda: 0 < page.seconds() <= 60, "the time has passed")
    goes_on(page)
    assert page.is_blocked
    page.press()
    assert page.js("clicks") == 0
    page.passes(59)
    page.until("ready")
    assert not page.is_blocked
    # It follows again, and knows better.
    if lost == "gateway":
        site.gateway.start()
    elif lost == "daemon":
        daemon.start_again()
        # The stream is still open, and the gateway's clock has not moved with the page's.
        page.run("dispatchEvent(new Event('online'))")
    else:
        site.gateway.process.send_signal(signal.SIGCONT)
    page.until("counting")
    assert not page.is_offline


def test_the_page_hears_of_the_connection(site, open_page):
    page = open_page(script="""window.connections = []
    document.addEventListener('countdown-connection', event => connections.push(event.detail.isOnline))""")
    page.until("ready")
    site.gateway.stop()
    eventually(lambda: page.js("connections") == [True, False], "it is lost")
    site.gateway.start()
    eventually(lambda: page.js("connections") == [True, False, True], "it is back")


def test_a_pause_ends_offline_because_nobody_can_end_it(site, open_page, client):
    client("COUNTDOWN", "START", PHONE, "COUNT", "600")
    client("COUNTDOWN", "PAUSE", PHONE)
    page = open_page()
    page.until("paused")
    site.gateway.stop()
    page.until("unknown")
    assert not page.is_blocked and page.text == "Send code" and page.said == ""
    site.gateway.start()
    page.until("paused")


def test_a_browser_that_is_offline_and_online_again_follows(site, open_page, client):
    page = open_page()
    page.until("ready")
    page.driver.be_online(False)
    site.gateway.stop()
    eventually(lambda: page.is_offline, "it is offline")
    site.gateway.start()
    client("COUNTDOWN", "START", PHONE, "COUNT", "600")
    page.driver.be_online(True)
    page.until("counting")


# Clocks


@pytest.mark.parametrize("hours", [-1, 1])
def test_the_button_ignores_the_clock_of_the_client(site, open_page, client, hours):
    client("COUNTDOWN", "START", PHONE, "COUNT", "600")
    page = open_page(script=CLOCKS)
    counting(page)
    page.run("""window.snapshots = 0
    host.addEventListener('countdown-change', event => snapshots += event.detail.event === 'snapshot')""")
    page.run(f"asleep += {hours * HOUR}")
    # It may have slept, so it asks; the answer would take back what `goes_on` adds to its clock.
    eventually(lambda: page.js("snapshots"), "it has asked")
    goes_on(page)
    assert page.seconds() <= 600 and page.state == "counting"


@pytest.mark.daemon(virtual_time=True)
@pytest.mark.parametrize("hours", [-1, 1])
def test_the_button_ignores_the_wall_clock_of_the_daemon(site, open_page, client, hours):
    client("COUNTDOWN", "START", PHONE, "COUNT", "600")
    page = open_page()
    counting(page)
    page.run("host.addEventListener('countdown-change', event => window.changed = event.detail.event)")
    client("CLOCK", "SET", f"{hours:+}h")
    # The refusal tells the page the new time of the clock.
    client("COUNTDOWN", "START", PHONE)
    eventually(lambda: page.js("window.changed") == "refused", "it knows")
    assert page.state == "counting" and 0 < page.seconds() <= 600


def test_a_slow_message_makes_the_end_later_and_a_fast_one_corrects_it(app, open_page):
    app.watch = {"resend": "countdown:1"}
    app.pages["/"] = """<!doctype html><html lang="en"><title>Clocks</title>
    <script type="module" src="/static/1/countdown-button.js"></script>
    <countdown-button alias="resend" gateway="/"><button>Send code</button></countdown-button>"""
    page = open_page(script=CLOCKS)
    # Sent at 100 s, as the end is at 160 s; but it arrived 20 s later.
    app.send("hello", now_ms=100_000)
    app.send("snapshot", alias="resend", state="counting", remaining_ms=60_000, now_ms=100_000,
             deadline_ms=160_000)  # fmt: skip
    assert counting(page) == 60
    app.send(None, now_ms=120_000)
    eventually(lambda: page.seconds() == 40, "the comment was faster")
    # A slow one changes nothing.
    app.send(None, now_ms=90_000)
    app.send("recovered", now_ms=90_000)
    goes_on(page)
    # No number at all.
    app.send("started", alias="resend", state="counting")
    page.until("unknown")
    assert not page.is_blocked and page.text == "Send code"
    # Another gateway has another clock.
    app.messages.put(None)
    app.send("hello", now_ms=5)
    app.send("snapshot", alias="resend", state="counting", remaining_ms=60_000, now_ms=5,
             deadline_ms=60_005)  # fmt: skip
    page.until("counting")
    assert page.seconds() == 60


def test_a_missed_event_is_not_the_state(app, open_page):
    app.watch = {"resend": "countdown:1"}
    app.pages["/"] = """<!doctype html><html lang="en"><title>Missed</title>
    <script type="module" src="/static/1/countdown-button.js"></script>
    <countdown-button alias="resend" gateway="/"><button>Send code</button></countdown-button>
    <script>window.seen = []
    addEventListener('countdown-change', event => seen.push([event.detail.event, event.detail.missed]))
    </script>"""
    page = open_page()
    app.send("hello", now_ms=1)
    app.send("started", alias="resend", state="counting", remaining_ms=60_000)
    eventually(lambda: page.js("seen") == [["started", True]], "it is reported")
    assert page.state == "unknown"
    app.send("snapshot", alias="resend", state="ready", remaining_ms=0, now_ms=2, deadline_ms=2)
    page.until("ready")


def test_a_sleep_is_noticed(site, open_page, client):
    client("COUNTDOWN", "START", PHONE, "COUNT", "600")
    page = open_page(script=CLOCKS)
    counting(page)
    tickets = "performance.getEntriesByType('resource').filter(one => one.name.includes('events')).length"
    before = page.js(tickets)
    # The clock of the page stands still in a sleep; so the button is late, but never early.
    page.run("asleep += 30_000")
    eventually(lambda: page.js(tickets) > before, "it connects again")
    eventually(lambda: 0 < page.seconds() <= 600, "it is right again")


@only("chromium", "WebDriver BiDi has no command that freezes a page")
def test_a_page_that_was_frozen_is_right_at_once(site, open_page, client):
    client("COUNTDOWN", "START", PHONE, "COUNT", "600")
    page = open_page(script=CLOCKS)
    counting(page)
    page.driver.execute_cdp_cmd("Page.setWebLifecycleState", {"state": "frozen"})
    client("COUNTDOWN", "CANCEL", PHONE)
    page.driver.execute_cdp_cmd("Page.setWebLifecycleState", {"state": "active"})
    page.until("ready")
    client("COUNTDOWN", "START", PHONE, "COUNT", "600")
    page.until("counting")
    page.run("document.dispatchEvent(new Event('resume'))")
    goes_on(page)


@pytest.mark.parametrize("event", [
    "new Event('online')", "new PageTransitionEvent('pageshow', {persisted: true})",
])  # fmt: skip
def test_a_page_that_comes_back_asks_at_once(app, open_page, event):
    """Online, or out of the browser's cache, while it waits before it asks again."""
    app.watch, app.refusal = {"resend": "countdown:1"}, (503, "later")
    app.pages["/"] = """<!doctype html><html lang="en"><title>Back</title>
    <script type="module" src="/static/1/countdown-button.js"></script>
    <countdown-button alias="resend" gateway="/"><button>Send code</button></countdown-button>"""
    page = open_page(script="""window.asked = 0
    const native = fetch
    window.fetch = (...all) => (asked++, native(...all))""")  # fmt: skip
    eventually(lambda: page.js("asked") >= 4, "it waits for longer and longer")
    # What follows at once comes before a timer.
    page.run(f"const before = asked; dispatchEvent({event}); setTimeout(() => window.more = asked - before)")
    eventually(lambda: page.js("window.more ?? null") is not None, "a moment has passed")
    assert page.js("more") == 1


def test_the_time_that_a_late_timer_has_missed_is_over_at_a_press(site, open_page, client):
    client("COUNTDOWN", "START", PHONE, "COUNT", "600")
    page = open_page(script=CLOCKS)
    counting(page)
    page.run("isSilent = true; skew += 601_000; button.click()")
    assert page.js("clicks") == 1


# Tickets


@pytest.mark.parametrize("refusal", [
    (401, "no"), (403, "no"), (404, "no"), (200, ""), (200, "<!doctype html><title>Log in</title>"),
])  # fmt: skip
def test_without_a_ticket_the_button_works_and_the_console_says_why_once(site, open_page, refusal):
    site.refusal = refusal
    page = open_page()
    eventually(lambda: site.tickets >= 3, "it asks again")
    page.run("isSilent = true")
    page.press()
    page.press()
    assert page.js("clicks") == 2 and page.state == "unknown" and not page.is_blocked
    status, _ = refusal
    says = "answers no ticket" if status == 200 else f"answers {status}"
    assert page.warnings() == [f"{site.origin}/ticket {says}"]
    site.refusal = None
    page.until("ready")


@pytest.mark.parametrize("status", [401, 403])
def test_a_ticket_that_the_gateway_refuses_is_replaced_at_once(app, open_page, status):
    app.watch = {"resend": "countdown:1"}
    app.pages["/"] = """<!doctype html><html lang="en"><title>Refused</title>
    <script type="module" src="/static/1/countdown-button.js"></script>
    <countdown-button alias="resend" gateway="/"><button>Send code</button></countdown-button>"""
    app.stream_refusals = [status] * 3
    page = open_page()
    app.send("hello", now_ms=1)
    app.send("snapshot", alias="resend", state="ready", remaining_ms=0)
    page.until("ready")
    assert app.tickets == 4
    # The end of a stream, and a ticket that has expired meanwhile: nobody sees that.
    app.stream_refusals = [status]
    page.run("""window.offline = 0
    new MutationObserver(() => window.offline++).observe(
      document.querySelector('countdown-button'), {attributeFilter: ['data-offline']})""")
    app.messages.put(None)
    app.send("hello", now_ms=1)
    app.send("snapshot", alias="resend", state="counting", remaining_ms=60_000)
    page.until("counting")
    assert app.tickets == 5 and page.js("offline") == 0


@pytest.mark.parametrize("kind, says", [
    # The page with which many sites answer each address, and a proxy that ends streams at once.
    ("text/html", "answers no stream"), ("text/event-stream", "ends before it says hello"),
])  # fmt: skip
def test_an_answer_that_is_no_stream_is_asked_for_less_and_less(app, open_page, kind, says):
    app.watch = {"resend": "countdown:1"}
    app.pages["/"] = """<!doctype html><html lang="en"><title>No stream</title>
    <script type="module" src="/static/1/countdown-button.js"></script>
    <countdown-button alias="resend" gateway="/"><button>Send code</button></countdown-button>"""
    app.stream_refusals = [kind] * 1_000
    page = open_page(script="""window.asked = []
    const native = fetch
    window.fetch = (...all) => {
      if (`${all[0]}`.includes('events')) asked.push(Date.now())
      return native(...all)
    }""")  # fmt: skip
    eventually(lambda: app.streams >= 5, "it asks again")
    assert page.warnings() == [f"{app.origin}/v1/events {says}"]
    assert page.state == "unknown" and page.is_offline and not page.is_blocked
    # Each pause is about twice as long as the one before: the fourth at least 1.5 s.
    asked = page.js("asked")
    assert asked[4] - asked[3] >= 1_500, asked
    app.stream_refusals = []
    app.send("hello", now_ms=1)
    app.send("snapshot", alias="resend", state="ready", remaining_ms=0)
    page.until("ready")


@pytest.mark.parametrize("gateway", ["/countdown", "/countdown/", "countdown", "/countdown/?a=b"])
def test_a_gateway_in_a_folder_is_found_with_and_without_a_slash(app, open_page, gateway):
    app.watch = {"resend": "countdown:1"}
    app.pages["/"] = f"""<!doctype html><html lang="en"><title>Folder</title>
    <script type="module" src="/static/1/countdown-button.js"></script>
    <countdown-button alias="resend" gateway="{gateway}"><button>Send code</button></countdown-button>"""
    page = open_page()
    asked = "performance.getEntriesByType('resource').map(one => new URL(one.name).pathname)"
    eventually(lambda: "/countdown/v1/events" in page.js(asked), "it asks there")


def test_a_module_that_no_gateway_serves_asks_for_its_address(app, open_page):
    # A folder of this name says nothing about a gateway.
    for name in ("countdown-button.js", "countdown-stream.js"):
        app.pages[f"/components/{name}"] = (COMPONENTS / name).read_text()
    app.pages["/"] = """<!doctype html><html lang="en"><title>Hosted</title>
    <script type="module" src="/components/countdown-button.js"></script>
    <countdown-button alias="resend"><button>Send code</button></countdown-button>"""
    page = open_page()
    warnings = eventually(page.warnings, "it says so")
    assert len(warnings) == 1 and warnings[0].startswith("say where the gateway is")
    assert page.state == "unknown" and app.tickets == app.streams == 0


def test_a_session_that_is_over_is_not_asked_for_ever(site, open_page):
    site.refusal = 401, "no"
    page = open_page(script="""const native = setTimeout
    window.setTimeout = (body, pause) => native(body, pause / 20)""")
    seen = []
    eventually(lambda: seen.extend(page.warnings()) or len(seen) == 2, "it says so")
    assert seen[0].endswith("/ticket answers 401") and "nobody asks until the page comes back" in seen[1]
    before = site.tickets
    assert before == 5
    page.driver.execute_async_script("setTimeout(arguments[0], 20_000)")
    assert site.tickets == before and page.is_offline and not page.is_blocked
    site.refusal = None
    page.run("dispatchEvent(new Event('online'))")
    page.until("ready")


def test_a_function_gives_the_ticket(site, open_page, client):
    site.pages["/"] += """<script type="module" nonce="test">
    const token = 'mine'
    window.asked = 0
    const get = async () => {
      asked++
      const answer = await fetch('/ticket', {headers: {Authorization: `Bearer ${token}`}})
      return answer.text()
    }
    host.ticket = get
    const other = host.cloneNode(true)
    other.id = 'other'
    other.ticket = get
    host.after(other)
    </script>"""
    page = open_page()
    page.until("ready")
    eventually(lambda: page.js("other.dataset.state") == "ready", "both are")
    assert page.js("asked") == 1
    # The element may have sent a request of its own before the page set the function.
    assert [headers["Authorization"] for headers in site.asked].count("Bearer mine") == 1
    # One that fails is said, and asked again.
    page.run("host.ticket = other.ticket = async () => { throw new Error('not now') }")
    eventually(lambda: page.warnings() == ["the function answers: not now"], "it says so")
    assert not page.is_blocked
    page.run("host.ticket = '/ticket'")
    client("COUNTDOWN", "START", PHONE, "COUNT", "600")
    page.until("counting")
    assert page.js("host.ticket") == "/ticket"


@pytest.mark.parametrize("credentials", [None, "include"])
def test_cookies_go_along_to_another_origin_if_the_page_says_so(site, open_page, credentials):
    other = App(site.daemon)
    other.watch = site.watch
    attributes = f'ticket="{other.origin}/ticket"' + (f' credentials="{credentials}"' if credentials else "")
    site.pages["/"] = site.pages["/"].replace("<countdown-button ", f"<countdown-button {attributes} ")
    page = open_page(script="document.cookie = 'session=mine'")
    page.until("ready")
    assert (other.asked[-1]["Cookie"] == "session=mine") == bool(credentials)
    other.close()


def test_the_ticket_may_be_a_cookie_of_the_gateway(site, open_page, client):
    site.pages["/"] = site.pages["/"].replace("<countdown-button ", '<countdown-button ticket="" ')
    page = open_page(script=f"document.cookie = 'countdown-ticket={ticket(site.watch)}'")
    page.until("ready")
    client("COUNTDOWN", "START", PHONE, "COUNT", "600")
    page.until("counting")
    assert site.tickets == 0
    # The app has not renewed it.
    page.run("document.cookie = 'countdown-ticket=x'")
    site.gateway.stop()
    site.gateway.start()
    eventually(lambda: any("answers 401" in text for text in page.warnings()), "it says so")


def test_an_expired_ticket_is_replaced(site, open_page, client):
    site.life = 3
    page = open_page()
    page.until("ready")
    before = site.tickets
    eventually(lambda: site.tickets >= before + 2, "it asks for others")
    client("COUNTDOWN", "START", PHONE, "COUNT", "600")
    page.until("counting")


def test_an_unknown_alias_is_said_once_and_leaves_the_button_usable(site, open_page):
    del site.watch["resend"]
    page = open_page()
    eventually(page.warnings, "it says so")
    page.run("for (let i = 0; i < 9; i++) host.after(host.cloneNode(true))")
    # Another ticket has it, which an element that comes later asks for.
    site.watch["later"] = "countdown:later"
    page.run("host.alias = 'later'")
    page.until("ready")
    states = page.js("[...document.querySelectorAll('countdown-button')].map(one => one.dataset.state)")
    assert states == ["ready"] + ["unknown"] * 9
    assert not page.warnings()
    page.press()
    assert page.js("clicks") == 1


# Pages


def test_twenty_tabs_share_a_stream(site, open_page, client):
    page = open_page()
    page.until("ready")
    driver, channel = page.driver, f"countdown:{PHONE}"
    for _ in range(19):
        driver.switch_to.new_window("tab")
        driver.get(site.origin)
        page.until("ready")
    tabs = driver.window_handles
    streams = "countdown_gateway_streams"

    def figure():
        text = site.gateway.admin.ask("/metrics")[2]
        return [line.split()[1] for line in text.splitlines() if line.startswith(f"{streams} ")]

    assert figure() == ["1"] and len(tabs) == 20
    # A press in one of them is known in all.
    page.press()
    for tab in tabs:
        driver.switch_to.window(tab)
        page.until("counting")
        assert not page.is_offline and 0 < page.seconds() <= 600
    # The one that reads goes; another one goes on, and all hear of it.
    driver.switch_to.window(tabs[0])
    driver.close()
    driver.switch_to.window(tabs[19])
    eventually(lambda: figure() == ["1"], "another tab reads")
    client("COUNTDOWN", "CANCEL", PHONE)
    for tab in tabs[1:]:
        driver.switch_to.window(tab)
        page.until("ready")
    # So does the loss of the connection.
    site.gateway.stop()
    for tab in tabs[1::6]:
        driver.switch_to.window(tab)
        eventually(lambda: page.is_offline, "it knows")
    site.gateway.start()
    for tab in tabs[1::6]:
        driver.switch_to.window(tab)
        eventually(lambda: not page.is_offline, "it follows again")
    assert client("PUBSUB", "NUMSUB", channel)[1] == 1


def test_tabs_of_two_users_share_nothing(site, open_page, client):
    page = open_page()
    page.until("ready")
    site.watch = {"resend": "countdown:other"}
    client("COUNTDOWN", "START", "other", "COUNT", "600")
    page.driver.switch_to.new_window("tab")
    page.driver.get(site.origin)
    page.until("counting")
    page.driver.switch_to.window(page.driver.window_handles[0])
    assert page.state == "ready"


def test_a_tab_that_nobody_sees_closes_its_stream_and_catches_up(site, open_page, client):
    client("COUNTDOWN", "START", PHONE, "COUNT", "600")
    page = open_page(script=CLOCKS + """
    Object.defineProperty(Document.prototype, 'hidden', {get: () => !!window.isHidden})
    window.see = isSeen => {
      window.isHidden = !isSeen
      document.dispatchEvent(new Event('visibilitychange'))
    }""")
    counting(page)
    channel = f"countdown:{PHONE}"
    page.run("see(false)")
    page.passes(30)
    goes_on(page)
    assert client("PUBSUB", "NUMSUB", channel)[1] == 1
    page.passes(40)
    eventually(lambda: client("PUBSUB", "NUMSUB", channel)[1] == 0, "nobody follows")
    # Nobody is offline, and the time goes on.
    goes_on(page)
    page.passes(100)
    goes_on(page)
    assert not page.is_offline and page.state == "counting"
    client("COUNTDOWN", "CANCEL", PHONE)
    page.run("see(true)")
    page.until("ready")


def test_a_tab_that_is_silent_is_replaced(site, open_page, client):
    page = open_page(script=CLOCKS)
    page.until("ready")
    driver = page.driver
    first = driver.current_window_handle
    driver.switch_to.new_window("tab")
    driver.get(site.origin)
    page.until("ready")
    other = driver.current_window_handle
    driver.switch_to.window(first)
    # It is frozen while it reads.
    page.run("window.BroadcastChannel.prototype.postMessage = () => {}")
    driver.switch_to.window(other)
    page.run("const now = performance.now.bind(performance); performance.now = () => now() + 50_000")
    client("COUNTDOWN", "START", PHONE, "COUNT", "600")
    page.until("counting")


def test_elements_that_come_and_go_leave_nothing_behind(site, open_page, client):
    page = open_page(script="""window.listeners = 0
    for (const target of [window, document]) {
      const add = target.addEventListener.bind(target)
      target.addEventListener = (...all) => { window.listeners++; add(...all) }
    }""")  # fmt: skip
    page.until("ready")
    before = page.js("listeners")
    page.run("""for (let i = 0; i < 1_000; i++) {
      document.body.append(host)
      host.remove()
      document.body.prepend(host)
      const other = host.cloneNode(true)
      document.body.append(other)
      other.remove()
    }""")
    page.until("ready")
    channel = f"countdown:{PHONE}"
    assert client("PUBSUB", "NUMSUB", channel)[1] == 1 and site.tickets == 1
    client("COUNTDOWN", "START", PHONE, "COUNT", "600")
    page.until("counting")
    assert page.js("listeners") == before
    # The last one ends the stream; the next one has a ticket of its own, as after a logout.
    page.run("host.remove()")
    eventually(lambda: client("PUBSUB", "NUMSUB", channel)[1] == 0, "nobody follows")
    page.run("document.body.append(host)")
    client("COUNTDOWN", "CANCEL", PHONE)
    page.until("ready")
    assert site.tickets == 2


def test_a_follower_that_throws_is_reported_and_stops_nobody(site, open_page, client):
    site.pages["/"] += """<script type="module" nonce="test">
    import {follow, source} from '/static/1/countdown-stream.js'
    window.errors = []
    addEventListener('error', event => errors.push(event.message))
    follow(source(host), 'resend', () => { throw new Error('mine') })
    </script>"""
    page = open_page()
    eventually(lambda: page.js("errors"), "it is reported")
    client("COUNTDOWN", "START", PHONE, "COUNT", "600")
    page.until("counting")
    # Chromium says that it is uncaught.
    assert {text.removeprefix("Uncaught ") for text in page.js("errors")} == {"Error: mine"}
    assert site.tickets == 1


def test_two_versions_in_a_page_do_not_disturb_each_other(site, open_page, client):
    site.pages["/"] += """<script type="module" src="/static/2/countdown-button.js"></script>
    <script type="module" src="/static/2/countdown-hud.js"></script>"""
    page = open_page(script="window.errors = []; addEventListener('error', e => errors.push(e.message))")
    page.until("ready")
    page.press()
    page.until("counting")
    assert page.js("errors") == [] and page.js("clicks") == 1


def test_without_a_script_the_button_is_a_button(site, open_page):
    site.pages["/"] = site.pages["/"].replace("/static/1/countdown-button.js", "/nothing.js")
    page = open_page()
    page.run("isSilent = true")
    page.press()
    assert page.js("clicks") == 1


def test_a_message_that_is_no_number_shows_nothing(site, open_page):
    site.refusal = 404, "no"
    page = open_page()
    for odd in ({"state": "counting"}, {"state": "counting", "remaining_ms": "x"}, {"state": "paused"}, {}, 7):
        page.run(f"host.view = {json.dumps(odd)}")
        assert page.state == "unknown" and page.text == "Send code"
