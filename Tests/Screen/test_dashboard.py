"""The dashboard in a real browser."""

import pytest
from selenium.webdriver.common.by import By

from browser import browser, needs_browser
from countdownd import eventually
from web import PHONE, Page

pytestmark = needs_browser


def test_the_dashboard_shows_the_daemon_live(start_gateway, client):
    gateway = start_gateway("--dashboard")
    client("COUNTDOWN", "START", PHONE, "COUNT", "600")
    client("TIMER", "SET", "<img src=x onerror=alert(1)>", "1ms")
    driver = browser()
    try:
        driver.get(gateway.admin.url + "dashboard")
        page = Page(driver)
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
        assert not [text for _, text in driver.console() if "favicon" not in text]
        headers = gateway.admin.ask("/dashboard")[1]
        assert "script-src 'self'" in headers["Content-Security-Policy"]
        assert "unsafe" not in headers["Content-Security-Policy"]
    finally:
        driver.quit()


def test_other_sites_cannot_read_the_dashboard(start_gateway):
    admin = start_gateway("--dashboard").admin
    assert admin.problem("/dashboard/data", headers={"Sec-Fetch-Site": "cross-site"})[0] == 403
    assert admin.problem("/dashboard/data", headers={"Origin": "https://evil.example"})[0] == 403
