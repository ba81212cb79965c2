"""<countdown-button> in a real browser."""

import json

import pytest
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from browser import needs_browser
from countdownd import eventually, view
from web import CLOCKS, PHONE

pytestmark = needs_browser


# Presses


def test_a_press_starts_the_countdown_and_further_ones_do_nothing(site, open_page):
    page = open_page()
    page.until("ready")
    assert not page.is_blocked and page.text == "Send code"
    page.press()
    eventually(lambda: page.text.startswith("Send code in "), "it counts")
    assert page.is_blocked and page.state == "counting"
    for _ in range(3):
        page.press()
    ActionChains(page.driver).send_keys(Keys.ENTER, Keys.SPACE).perform()
    assert page.js("clicks") == 1 and site.posts == ["/send"]
    # `disabled` would have taken the focus away.
    assert page.js("document.activeElement.tagName") == "BUTTON"
    assert not page.warnings()


def test_two_presses_at_once_send_one_code(site, open_page):
    page = open_page()
    page.until("ready")
    page.run("isSilent = true; button.click(); button.click()")
    assert page.js("clicks") == 1 and page.state == "ready"
    # No event follows, so the button can be pressed again.
    eventually(lambda: not page.is_blocked, "it can be pressed")
    page.press()
    assert page.js("clicks") == 2


def test_blocked_clicks_reach_no_listener_of_the_page_and_no_form(site, open_page, client):
    client("COUNTDOWN", "START", PHONE, "COUNT", "600")
    page = open_page()
    page.until("counting")
    page.run("""window.seen = []
    document.addEventListener('click', () => seen.push('capture'), true)
    const form = document.createElement('form')
    form.onsubmit = event => { seen.push('submit'); event.preventDefault() }
    host.replaceWith(form)
    form.append(host)""")
    page.press()
    assert page.js("seen") == []
    client("COUNTDOWN", "CANCEL", PHONE)
    page.until("ready")
    page.press()
    assert page.js("seen") == ["capture", "submit"]


def test_a_press_that_a_form_refuses_does_not_wait(site, open_page):
    page = open_page()
    page.until("ready")
    page.run("""const form = document.createElement('form')
    host.replaceWith(form)
    form.append(field, host)
    field.required = window.isSilent = true
    button.type = 'submit'""")
    page.until("ready")
    page.press()
    assert not page.is_blocked


@pytest.mark.parametrize("end", ["resolve", "reject", "host.pending = false"])
def test_presses_during_a_slow_request_are_one(site, open_page, end):
    page = open_page(script=CLOCKS)
    page.until("ready")
    page.run("""window.isSilent = true
    button.addEventListener('click', () => {
      host.pending = new Promise((resolve, reject) => Object.assign(window, {resolve, reject}))
    })""")
    page.press()
    for _ in range(4):
        page.passes(3)
        # A timer has had its time.
        page.driver.execute_async_script("setTimeout(arguments[0], 20)")
        page.press()
    assert page.js("clicks") == 1 and page.is_blocked and page.js("host.pending") is True
    page.run(end if "=" in end else f"{end}()")
    eventually(lambda: not page.js("host.pending"), "it is over")
    page.passes(2)
    page.press()
    assert page.js("clicks") == 2


def test_a_form_that_a_script_submits_waits_too(site, open_page, client):
    page = open_page()
    page.until("ready")
    page.run("""window.sent = 0
    window.isSilent = true
    const form = window.form = document.createElement('form')
    form.onsubmit = event => { sent++; event.preventDefault() }
    host.replaceWith(form)
    form.append(host)""")
    page.until("ready")
    # A press has one submit, whatever its listeners do later.
    page.run("button.click(); form.requestSubmit(); form.requestSubmit(button)")
    assert page.js("sent") == 1
    eventually(lambda: not page.is_blocked, "it can be pressed")
    page.run("form.requestSubmit(); form.requestSubmit()")
    assert page.js("sent") == 2
    client("COUNTDOWN", "START", PHONE, "COUNT", "600")
    page.until("counting")
    page.run("form.requestSubmit(); form.requestSubmit(button)")
    assert page.js("sent") == 2
    # Another button of the form is none of its business.
    page.run("""const other = document.createElement('button')
    form.append(other)
    form.requestSubmit(other)""")
    assert page.js("sent") == 3


@pytest.mark.parametrize("button", [
    '<input type="submit" value="Send code">', '<input type="button" value="Send code">',
    '<button value="resend">Send code</button>', "<x-button>Send code</x-button>",
    '<a role="button" href="#">Send code</a>',
])  # fmt: skip
def test_other_elements_that_are_buttons_count_too(site, open_page, client, button):
    site.pages["/"] = site.pages["/"].replace("<button>Send code</button>", button).replace(
        "host.querySelector('button')", "host.firstElementChild")
    page = open_page()
    page.until("ready")
    shown = "(button.localName === 'input' ? button.value : button.textContent)"
    page.run("isSilent = true; button.click(); button.click()")
    assert page.js("clicks") == 1
    client("COUNTDOWN", "START", PHONE, "COUNT", "600")
    page.until("counting")
    assert page.js(shown).startswith("Send code in ")
    assert page.js("button.ariaDisabled") == "true" and not page.warnings()
    page.run("button.click()")
    assert page.js("clicks") == 1
    # The app may change its texts meanwhile.
    page.run("if (button.localName === 'input') button.value = 'Resend'; else button.firstChild.data = 'Resend'")
    eventually(lambda: page.js(shown).startswith("Resend in "), "it has the new label")
    client("COUNTDOWN", "CANCEL", PHONE)
    page.until("ready")
    assert page.js(shown) == "Resend" and page.js("button.ariaDisabled") is None


def test_a_button_that_cannot_be_pressed_looks_so(site, open_page, client):
    page = open_page()
    page.until("ready")
    look = "['boxShadow', 'color', 'cursor'].map(name => getComputedStyle(button)[name])"
    ready = page.js(look)
    client("COUNTDOWN", "START", PHONE, "COUNT", "600")
    page.until("counting")
    assert page.js(look)[0] != ready[0] and page.js(look)[2] == "not-allowed"
    page.driver.emulate({"forced-colors": "active"})
    page.run("""const gray = document.createElement('i')
    gray.style.color = 'GrayText'
    document.body.append(gray)
    window.gray = getComputedStyle(gray).color""")
    assert page.js(look)[1] == page.js("gray")


# Display


def test_the_button_continues_after_a_refresh(site, open_page, client):
    client("COUNTDOWN", "START", PHONE, "COUNT", "600")
    page = open_page()
    eventually(lambda: page.seconds() > 0, "it counts")
    before = page.seconds()
    page.driver.refresh()
    eventually(lambda: page.seconds() > 0, "it counts again")
    assert page.seconds() <= before


def test_the_button_is_available_at_the_end_and_never_before(site, open_page, client):
    page = open_page()
    page.until("ready")
    # The states before each change: a busy browser reports several changes together.
    page.run("""window.left = []
    new MutationObserver(changes => left.push(...changes.map(one => one.oldValue)))
      .observe(host, {attributeFilter: ['data-state'], attributeOldValue: true})""")
    client("COUNTDOWN", "START", PHONE, "COUNT", "2")
    eventually(lambda: page.js("left") == ["ready", "counting"], "it has counted")
    assert view(client("COUNTDOWN", "GET", PHONE))["state"] == b"ready"
    assert not page.is_blocked and page.text == "Send code"


def test_a_paused_countdown_stands_still(site, open_page, client):
    client("COUNTDOWN", "START", PHONE, "COUNT", "600")
    page = open_page()
    page.until("counting")
    client("COUNTDOWN", "PAUSE", PHONE)
    page.until("paused")
    assert page.is_blocked and 0 < page.seconds() <= 600
    assert page.said == "Paused, 10 minutes left"
    client("COUNTDOWN", "RESUME", PHONE)
    page.until("counting")


def test_texts_have_hours_plurals_and_languages(open_page, app, client):
    app.watch = {"resend": "countdown:1"}
    app.pages["/"] = """<!doctype html><html lang="en"><title>Texts</title>
    <script type="module" src="/static/1/countdown-button.js"></script>
    <countdown-button waiting="{label} $$ $& {duration} {time} {odd}"
      ><button><svg><title>Icon</title></svg> Send <b>code</b></button></countdown-button>"""
    page = open_page(script=CLOCKS)
    host = "document.querySelector('countdown-button')"

    def text(seconds, language="en"):
        first = json.dumps({"state": "counting", "remaining_ms": seconds * 1_000})
        page.run(f"document.documentElement.lang = '{language}'; {host}.view = {first}")
        return page.js(f"{host}.textContent.replace('Icon', '').replace(/\\u2007/g, '').trim()")

    assert text(1) == "Send code $$ $& 1 second 0:01 {odd}"
    assert text(61) == "Send code $$ $& 61 seconds 1:01 {odd}"
    assert text(7260) == "Send code $$ $& 3 hours 2:01:00 {odd}"
    assert text(7190, "de") == "Send code $$ $& 120 Minuten 1:59:50 {odd}"
    # A language that nobody knows, and a label and a text of other directions.
    assert text(90, "no language").startswith("Send code $$ $& 90 ")
    page.run(f"{host}.waiting = '{{label}} بعد {{time}}'")
    assert text(90) == "\u2068Send code\u2069 بعد \u20681:30\u2069"
    # A digit less keeps the width.
    page.run(f"{host}.waiting = '{{seconds}}'")
    text(10)
    page.passes(1)
    eventually(lambda: page.js(f"{host}.textContent").rstrip(" ").endswith("\u20079"), "it shows 9")


LANGUAGES = """<!doctype html><html lang="en"><title>Languages</title>
<script type="module" src="/static/1/countdown-languages.js"></script>
<script type="module" src="/static/1/countdown-button.js"></script>
<script type="module" src="/static/1/countdown-hud.js"></script>
<countdown-button><button>OK</button></countdown-button>
<countdown-hud></countdown-hud>"""


def test_a_language_has_all_words_and_one_script_of_digits(app, open_page):
    app.pages["/"] = LANGUAGES
    page = open_page(script=CLOCKS)
    page.run("window.host = document.querySelector('countdown-button')")
    page.until("unknown")

    def shown(language, seconds, state="counting"):
        page.run(f"""document.documentElement.lang = '{language}'
        host.view = {{state: 'ready'}}
        host.view = {{state: '{state}', remaining_ms: {seconds * 1_000}}}""")
        return page.text.replace("\u2007", "").replace("\u00a0", " "), page.said.replace("\u00a0", " ")

    assert shown("de", 90) == ("OK in 1:30", "Noch 90 Sekunden")
    assert shown("de-AT", 90, "paused") == ("OK in 1:30", "Angehalten, noch 90 Sekunden")
    assert shown("en", 93_784) == ("OK in 1 day 2:03:04", "27 hours left")
    assert shown("da", 2 * 86_400) == ("OK om 2 dage 0:00:00", "2 dage tilbage")
    # Digits are of one script.
    text, said = shown("ar-EG", 90)
    assert text == "OK in ١:٣٠" and "٩٠" in said and not set("0123456789") & set(text + said)
    # Nothing is left out, or in English.
    words = page.driver.execute_async_script(
        "import('/static/1/countdown-stream.js').then(it => arguments[0](it.words))")
    names = set(page.js("[host, document.querySelector('countdown-hud')]"
                        ".flatMap(one => Object.keys(one.constructor.texts))"))  # fmt: skip
    assert len(words) == 9 and all(set(its) == names for its in words.values())
    for its in words.values():
        for name, text in its.items():
            needed = {"waiting": "label time", "left": "duration", "ready": "label", "paused": "duration"}
            assert all("{%s}" % one in text for one in needed.get(name, "").split()), text
    page.run("""document.documentElement.lang = 'fr'
    document.querySelector('countdown-hud').view = {state: 'visible', kind: 'loading'}""")
    assert page.part("panel").get_attribute("textContent") == "Chargement"


@pytest.mark.parametrize("inside, label, shown", [
    ("Send <b>it</b>", "Send it", "Send <b>it in 1:30</b>"),
    ("Send <span>3</span>", "Send", "Send in 1:30 <span>3</span>"),
    ("<i>✉</i> <span>Send</span> <em>3</em>", "Send", "<i>✉</i> <span>Send in 1:30</span> <em>3</em>"),
    ("<b>1</b>", "1", "<b>1 in 1:30</b>"),
])  # fmt: skip
def test_markup_and_badges_inside_the_button_stay(app, open_page, inside, label, shown):
    app.pages["/"] = LANGUAGES.replace(">OK<", f">{inside}<")
    page = open_page(script=CLOCKS)
    page.until("unknown")
    page.run("""window.host = document.querySelector('countdown-button')
    host.view = {state: 'counting', remaining_ms: 90_000}""")
    assert page.js("host.firstElementChild.innerHTML") == shown
    page.run("host.waiting = '{label}: {label} {time}'")
    assert f"{label}: {label} 1:30" in page.js("host.textContent")
    page.run("host.ready = '<{label}>'; skew += 90_000")
    page.until("ready")
    assert page.js("host.firstElementChild.innerHTML") == inside
    assert page.said == f"<{label}>"


def test_screen_readers_are_told_at_the_start_at_30_at_10_and_at_the_end(open_page, app):
    app.pages["/"] = """<!doctype html><html lang="en"><title>Texts</title>
    <script type="module" src="/static/1/countdown-button.js"></script>
    <countdown-button view='{"state":"counting","remaining_ms":40000}'
      ><button>Send code</button></countdown-button>"""
    page = open_page(script=CLOCKS)
    page.until("counting")
    assert page.said == "40 seconds left"
    for seconds, said in ((4, "40 seconds left"), (3, ""), (4, "29 seconds left"), (6, ""),
                          (12, "11 seconds left"), (1, "10 seconds left"), (9, "1 second left")):  # fmt: skip
        before = page.seconds()
        page.passes(seconds)
        eventually(lambda: page.seconds() == before - seconds, "it is drawn")
        assert page.said == ("" if said in ("11 seconds left", "1 second left") else said), before
    page.passes(1)
    page.until("ready")
    assert page.said == "Send code is available"


def test_the_name_of_a_button_in_focus_does_not_change_each_second(site, open_page, client):
    client("COUNTDOWN", "START", PHONE, "COUNT", "600")
    page = open_page()
    page.until("counting")
    assert page.js("button.ariaLabel") is None
    page.run("button.focus()")
    name, shown = page.js("button.ariaLabel"), page.text
    assert name.startswith("Send code in ")
    eventually(lambda: page.text != shown, "it counts")
    assert page.js("button.ariaLabel") == name
    page.run("button.blur()")
    assert page.js("button.ariaLabel") is None
    # A name that the app gives has the time.
    client("COUNTDOWN", "CANCEL", PHONE)
    page.until("ready")
    page.run("button.ariaLabel = 'Send a code'")
    client("COUNTDOWN", "START", PHONE, "COUNT", "600")
    page.until("counting")
    assert page.js("button.ariaLabel").startswith("Send a code in ")
    client("COUNTDOWN", "CANCEL", PHONE)
    page.until("ready")
    assert page.js("button.ariaLabel") == "Send a code"


# Frameworks


def test_the_first_view_of_a_server_shows_before_any_message(site, open_page):
    site.refusal = 404, "no"
    first = '{"state":"counting","remaining_ms":60000}'
    site.pages["/"] = site.pages["/"].replace("<countdown-button ", f"<countdown-button view='{first}' ")
    page = open_page()
    page.until("counting")
    assert page.is_blocked and page.seconds() > 0
    page.run("host.setAttribute('view', '{')")
    assert page.state == "counting" and any("no view" in text for text in page.warnings())
    # The gateway knows better.
    site.refusal = None
    page.until("ready")
    page.run(f"host.view = {first}")
    assert page.state == "ready"


def test_properties_may_be_set_before_and_after_the_definition(site, open_page, client):
    client("COUNTDOWN", "START", PHONE, "COUNT", "600")
    site.watch["other"] = "countdown:other"
    page = open_page("/static/1/countdown-button.js")
    page.run("""document.body.textContent = ''
    window.host = document.createElement('countdown-button')
    host.append(document.createElement('button'))
    host.alias = 'resend'; host.state = 'mine'; host.seconds = 5
    host.gateway = '""" + site.gateway.url + """'
    document.body.append(host)
    import('/static/1/countdown-button.js')""")
    page.until("counting")
    assert page.js("host.state") == "counting" and page.js("host.seconds") > 0
    assert page.js("host.getAttribute('alias')") == "resend"
    page.run("host.alias = 'other'")
    page.until("ready")
    page.run("host.alias = 'resend'")
    page.until("counting")
    page.run("host.gateway = null")
    page.until("unknown")


def test_a_button_may_come_later_than_its_element(site, open_page):
    page = open_page("/static/1/countdown-button.js")
    page.run("""window.host = document.createElement('countdown-button')
    host.view = {state: 'counting', remaining_ms: 60_000}
    document.body.replaceChildren(host)
    import('/static/1/countdown-button.js')""")
    page.until("counting")
    page.run("host.append(Object.assign(document.createElement('button'), {textContent: 'Send code'}))")
    eventually(lambda: page.text.startswith("Send code in ") and page.is_blocked, "it counts")


def test_the_app_may_change_its_text_and_its_button_meanwhile(site, open_page, client):
    client("COUNTDOWN", "START", PHONE, "COUNT", "600")
    page = open_page()
    page.until("counting")
    page.run("button.firstChild.data = 'Resend'")
    eventually(lambda: page.text.startswith("Resend in "), "it has the new label")
    page.run("button.replaceWith(Object.assign(document.createElement('button'), {textContent: 'New'}))")
    eventually(lambda: page.text.startswith("New in ") and page.is_blocked, "it has the new button")
    client("COUNTDOWN", "CANCEL", PHONE)
    page.until("ready")
    assert page.text == "New" and not page.is_blocked


# How htmx, Turbo and others copy a part of a page.
COPIES = {
    "the inside of the element": "host.innerHTML = host.innerHTML",
    "the page": "main.innerHTML = main.innerHTML",
    "a clone": "main.replaceWith(main.cloneNode(true))",
    "a cache": """const copy = main.cloneNode(true)
    main.replaceChildren()
    main.replaceWith(copy)""",
}


@pytest.mark.parametrize("copy", COPIES)
def test_a_copy_of_a_button_that_counts_has_its_own_texts(site, open_page, client, copy):
    site.pages["/"] = site.pages["/"].replace("; require-trusted-types-for 'script'", "").replace(
        ">Send code</button>", ' aria-label="Send it"><svg><title>Icon</title></svg> <b>Send</b>  it</button>')
    client("COUNTDOWN", "START", PHONE, "COUNT", "600")
    page = open_page()
    # Texts side by side and empty ones, as frameworks make them.
    page.run("button.append(' now', '', '!')")
    own = "Icon Send  it now!"
    page.until("counting")
    eventually(lambda: "Send it in" in page.js("button.ariaLabel ?? ''"), "it shows the time")
    for _ in range(3):
        page.run(f"""const main = document.querySelector('main')
        const host = main.querySelector('countdown-button'); {COPIES[copy]}""")
        page.until("counting")
        assert page.text.count("0:") + page.text.count("9:") == 1 and page.is_blocked, page.text
    client("COUNTDOWN", "CANCEL", PHONE)
    page.until("ready")
    assert page.text == own and not page.is_blocked
    attributes = page.js("document.querySelector('countdown-button button').getAttributeNames()")
    assert attributes == ["aria-label"]
    assert page.js("document.querySelector('countdown-button button').ariaLabel") == "Send it"


def test_a_button_that_leaves_the_element_or_the_page_is_as_it_was(site, open_page, client):
    client("COUNTDOWN", "START", PHONE, "COUNT", "600")
    page = open_page()
    page.until("counting")
    page.run("button.focus()")
    look = "[button.textContent, ...button.getAttributeNames()]"
    page.run("host.remove()")
    assert page.js(look) == ["Send code"]
    page.run("document.body.append(host)")
    page.until("counting")
    page.run("window.other = document.createElement('button'); button.replaceWith(other)")
    eventually(lambda: page.js("other.ariaDisabled") == "true", "it has the new one")
    assert page.js(look) == ["Send code"]


def test_a_copy_of_a_page_that_was_offline_is_not_offline(site, open_page):
    page = open_page()
    page.until("ready")
    page.run("""const copy = host.cloneNode(true)
    copy.dataset.offline = ''
    host.replaceWith(copy)""")
    assert not page.is_offline


def test_events_bubble_out_of_shadow_trees(site, open_page, client):
    page = open_page()
    page.until("ready")
    page.run("""const outer = document.createElement('div')
    host.replaceWith(outer)
    outer.attachShadow({mode: 'open'}).append(host)
    addEventListener('countdown-change', event => window.changed = event.detail.event)""")
    client("COUNTDOWN", "START", PHONE, "COUNT", "600")
    eventually(lambda: page.js("window.changed") == "started", "it bubbles")


def test_two_tabs_show_the_same(site, open_page):
    page, other = open_page(), open_page()
    page.until("ready")
    other.until("ready")
    page.press()
    other.until("counting")
    other.press()
    assert other.js("clicks") == 0 and site.posts == ["/send"]


def test_elements_share_a_stream(site, open_page, client):
    page = open_page()
    page.until("ready")
    page.run("for (let i = 0; i < 20; i++) host.after(host.cloneNode(true))")
    states = "[...document.querySelectorAll('countdown-button')].map(one => one.dataset.state)"
    eventually(lambda: set(page.js(states)) == {"ready"}, "all are ready")
    client("COUNTDOWN", "START", PHONE, "COUNT", "600")
    eventually(lambda: set(page.js(states)) == {"counting"}, "all count")
    assert site.tickets == 1 and len(page.driver.find_elements(By.TAG_NAME, "countdown-button")) == 21
