"""<countdown-hud> in a real browser."""

import pytest
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from browser import needs_browser
from countdownd import eventually

pytestmark = needs_browser

MODAL = "hud.shadowRoot.querySelector('dialog').matches(':modal')"


def show(client, *words):
    client("HUD", "SHOW", "screen", *words, "GRACE", "0", "FADEIN", "0", "MIN", "0")


def visible(page):
    eventually(lambda: page.hud == "visible", "it is visible")


def keys(page, *keys):
    ActionChains(page.driver).send_keys(*keys).perform()


def focused(page):
    return page.js("document.activeElement.id || document.activeElement.tagName")


def test_a_hud_appears_progresses_and_disappears(site, open_page, client):
    page = open_page("/hud")
    panel = page.part("panel")
    assert not panel.is_displayed()
    eventually(lambda: "snapshot" in page.js("states"), "it follows")
    show(client, "STATUS", "Loading…", "MASK", "black")
    eventually(lambda: panel.is_displayed(), "it appears")
    assert panel.text == "Loading…" and panel.get_attribute("role") == "status"
    client("HUD", "PROGRESS", "screen", "0.5")
    progress = page.part("progress")
    eventually(lambda: progress.is_displayed(), "it shows progress")
    assert progress.get_attribute("value") == "0.5"
    client("HUD", "DISMISS", "screen")
    eventually(lambda: not panel.is_displayed(), "it disappears")
    events = page.js("states")
    assert events.index("will-appear") < events.index("did-appear")
    assert events.index("will-disappear") < events.index("did-disappear")


def test_a_mask_keeps_clicks_and_keys_from_the_page_and_gives_the_focus_back(site, open_page, client):
    page = open_page("/hud")
    page.driver.find_element(By.ID, "below").click()
    show(client, "MASK", "clear")
    visible(page)
    assert page.js(MODAL) and focused(page) == "COUNTDOWN-HUD"
    # Between the ends of a dialog, Firefox has its own controls: the second one comes back.
    for key in (Keys.ENTER, Keys.TAB, Keys.TAB, Keys.SPACE, Keys.ESCAPE, Keys.ESCAPE, Keys.ENTER):
        keys(page, key)
    assert page.js("clicks") == 1 and set(page.js("taps.splice(0)")) == {"inside"}
    ActionChains(page.driver).move_to_element(page.driver.find_element(By.ID, "below")).click().perform()
    page.part("panel").click()
    assert page.js("taps") == ["outside", "inside"] and page.js("clicks") == 1
    # Escape does not end what the daemon shows.
    assert page.js(MODAL) and page.hud == "visible"
    client("HUD", "DISMISS", "screen")
    eventually(lambda: page.hud == "hidden", "it is hidden")
    assert focused(page) == "below"
    keys(page, Keys.ENTER)
    assert page.js("clicks") == 2


def test_without_a_mask_the_page_stays_usable(site, open_page, client):
    page = open_page("/hud")
    page.driver.find_element(By.ID, "below").click()
    show(client, "STATUS", "Saving")
    visible(page)
    assert not page.js(MODAL) and focused(page) == "below"
    page.driver.find_element(By.ID, "below").click()
    keys(page, Keys.ENTER)
    assert page.js("clicks") == 3
    # The mask may come later, and go.
    show(client, "MASK", "black")
    eventually(lambda: page.js(MODAL), "it has a mask")
    client("HUD", "DISMISS", "screen")
    client("HUD", "DISMISS", "screen")
    eventually(lambda: page.hud == "hidden", "it is hidden")
    assert not page.js(MODAL)


def test_a_hud_without_text_has_a_name(site, open_page, client):
    page = open_page("/hud")
    show(client, "MASK", "clear")
    visible(page)
    dialog = "hud.shadowRoot.querySelector('dialog')"
    assert page.js(f"{dialog}.ariaLabel") == "Loading"
    page.run("hud.loading = 'Lädt'")
    assert page.js(f"{dialog}.ariaLabel") == "Lädt"
    assert page.part("panel").get_attribute("textContent") == "Lädt"
    show(client, "STATUS", "Photos")
    eventually(lambda: page.js(f"{dialog}.ariaLabel") == "Photos", "it has the text")
    assert page.part("panel").get_attribute("textContent") == "Photos"


def test_a_mask_is_released_without_a_connection_and_says_so(site, open_page, client):
    page = open_page("/hud")
    # Its patience begins when the connection is lost, with the value of that time.
    page.run("hud.patience = 1")
    show(client, "STATUS", "Uploading", "MASK", "black")
    visible(page)
    site.gateway.stop()
    eventually(lambda: not page.js(MODAL), "the mask is released")
    assert page.part("panel").text.split("\n") == ["!", "The connection is lost"]
    page.driver.find_element(By.ID, "below").click()
    assert page.js("clicks") == 1
    page.part("panel").click()
    assert not page.part("panel").is_displayed()
    # The daemon is asked again.
    site.gateway.start()
    eventually(lambda: page.js(MODAL), "it has its mask again")
    assert page.part("panel").text == "Uploading"


def test_a_mask_stays_during_a_short_loss_of_the_connection(site, open_page, client):
    page = open_page("/hud")
    page.run("hud.patience = 600")
    show(client, "MASK", "black")
    visible(page)
    site.gateway.stop()
    eventually(lambda: page.js("hud.hasAttribute('data-offline')"), "it is offline")
    assert page.js(MODAL)
    site.gateway.start()
    eventually(lambda: not page.js("hud.hasAttribute('data-offline')"), "it follows again")
    assert page.js(MODAL) and not page.js("hud.hasAttribute('data-released')")


def test_a_contained_mask_makes_its_part_of_the_page_inert(site, open_page, client):
    page = open_page("/hud")
    page.run("""const card = document.createElement('section'), inside = document.createElement('button')
    inside.id = 'inside'
    card.style.position = 'relative'
    card.append(inside, hud)
    document.body.append(card)
    hud.setAttribute('contained', '')
    inside.focus()""")
    show(client, "MASK", "clear")
    visible(page)
    assert page.js("inside.inert") and not page.js(MODAL)
    page.driver.find_element(By.ID, "below").click()
    assert page.js("clicks") == 1
    # A copy of the page, as Turbo makes it, is inert as long as its own HUD says.
    page.run("""const card = hud.parentNode, copy = card.cloneNode(true)
    copy.id = 'copy'
    card.after(copy)""")
    client("HUD", "DISMISS", "screen")
    eventually(lambda: page.hud == "hidden", "it is hidden")
    assert not page.js("inside.inert")
    eventually(lambda: page.js("copy.querySelector('countdown-hud').dataset.state") == "hidden", "its copy, too")
    assert not page.js("copy.querySelector('button').inert")


def test_a_part_of_a_page_is_masked_with_what_comes_later(site, open_page, client):
    page = open_page("/hud")
    page.run("""const card = window.card = document.createElement('section')
    card.style.position = 'relative'
    card.append(hud)
    document.body.append(card)
    hud.contained = true""")
    show(client, "MASK", "black")
    visible(page)
    page.run("window.late = document.createElement('button'); card.prepend(late)")
    eventually(lambda: page.js("late.inert"), "what comes later is inert")
    # It may become one of the whole page, and back.
    page.run("hud.contained = false")
    assert page.js(MODAL) and not page.js("late.inert") and page.js("hud.contained") is False
    page.run("hud.contained = true")
    assert page.js("late.inert") and not page.js(MODAL)
    # React 18 writes this for false.
    page.run("hud.setAttribute('contained', 'false')")
    assert page.js(MODAL) and not page.js("late.inert")
    assert page.js("getComputedStyle(hud).position") == "static"
    client("HUD", "DISMISS", "screen")
    eventually(lambda: page.hud == "hidden", "it is hidden")


@pytest.mark.parametrize("kind", ["dialog.showModal()", "dialog.popover = 'manual', dialog.showPopover()"])
def test_what_opens_under_a_mask_is_under_it(site, open_page, client, kind):
    page = open_page("/hud")
    page.driver.find_element(By.ID, "below").click()
    show(client, "MASK", "black", "STATUS", "Saving")
    visible(page)
    page.run(f"""const dialog = document.createElement('dialog')
    dialog.append(Object.assign(document.createElement('button'), {{id: 'late', onclick: () => clicks += 10}}))
    document.body.append(dialog)
    {kind}""")
    at = "document.elementFromPoint(innerWidth / 2, innerHeight / 2)?.tagName"
    eventually(lambda: page.js(at) == "COUNTDOWN-HUD", "it is on top")
    assert focused(page) == "COUNTDOWN-HUD"
    keys(page, Keys.ENTER)
    assert page.js("clicks") == 1 and page.js("taps") == ["inside"]
    client("HUD", "DISMISS", "screen")
    eventually(lambda: page.hud == "hidden", "it is hidden")
    page.run("late.click()")
    assert page.js("clicks") == 11


def test_the_keyboard_taps_a_hud_without_a_mask(site, open_page, client):
    page = open_page("/hud")
    show(client, "STATUS", "Saving")
    visible(page)
    keys(page, Keys.TAB, Keys.TAB)
    assert focused(page) == "COUNTDOWN-HUD"
    keys(page, Keys.ENTER)
    assert page.js("taps") == ["inside"]


def test_progress_has_a_text(site, open_page, client):
    page = open_page("/hud")
    show(client)
    visible(page)
    for language, text in (("en", "35%"), ("de", "35\u00a0%")):
        page.run(f"document.documentElement.lang = '{language}'")
        client("HUD", "PROGRESS", "screen", "0.2")
        client("HUD", "PROGRESS", "screen", "0.35")
        eventually(lambda: page.part("progress").get_attribute("aria-valuetext") == text, "it has the text")


def test_texts_are_never_html(site, open_page, client):
    show(client, "STATUS", "<img src=x onerror=alert(1)>")
    page = open_page("/hud")
    panel = page.part("panel")
    eventually(lambda: panel.is_displayed(), "it appears")
    assert panel.text == "<img src=x onerror=alert(1)>"


def test_a_hud_that_leaves_the_page_takes_its_mask_along(site, open_page, client):
    page = open_page("/hud")
    show(client, "MASK", "black")
    visible(page)
    page.run("document.body.append(hud)")
    eventually(lambda: page.js(MODAL), "it is there again")
    page.run("hud.remove()")
    page.driver.find_element(By.ID, "below").click()
    assert page.js("clicks") == 1
