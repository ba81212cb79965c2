"""The page of the login example in a real browser."""

import pytest
from selenium.webdriver.common.by import By

from browser import browser, needs_browser
from countdownd import eventually
from test_examples import PHONE, POLICY, UNREACHABLE, Service, flask_command, other

pytestmark = needs_browser


class Page:
    def __init__(self, driver, url):
        self.driver = driver
        driver.get(url)

    def __getattr__(self, name):
        return self.driver.find_element(By.ID, name)

    @property
    def button(self):
        """The text of the button that sends codes."""
        return self.resend.text

    def says(self, text):
        return text in self.message.text

    def fill(self, field, text):
        field.clear()
        field.send_keys(text)

    def ask_for_a_code(self, phone=PHONE):
        self.fill(self.phone, phone)
        self.resend.click()

    def sign_in(self, code):
        self.fill(self.code, code)
        self.verify.find_element(By.TAG_NAME, "button").click()


@pytest.fixture
def service(daemon):
    service = Service(flask_command, daemon)
    yield service
    service.close()


@pytest.fixture
def open_page(service):
    drivers = []

    def open_page(url=service.url, script="", **options):
        drivers.append(browser(**options))
        # Runs before the scripts of the page.
        drivers[-1].preload(script)
        return Page(drivers[-1], url)

    yield open_page
    for driver in drivers:
        driver.quit()


@pytest.mark.daemon(config=POLICY)
def test_a_person_signs_in(service, open_page):
    page = open_page()
    page.ask_for_a_code("+45 12 34 56 78")
    eventually(lambda: page.says("We sent you a code."), "it is sent")
    assert not page.resend.is_enabled()
    (code,) = service.sent
    page.sign_in(other(code))
    eventually(lambda: page.says("Attempts left: 2."), "a wrong code is refused")
    page.sign_in(code)
    eventually(lambda: page.says("You are signed in."), "the right one is accepted")


@pytest.mark.daemon(config=POLICY)
def test_a_failed_send_leaves_the_button_enabled(open_page):
    page = open_page()
    page.ask_for_a_code(UNREACHABLE)
    eventually(lambda: page.says("could not be sent"), "it is reported")
    assert page.resend.is_enabled()


@pytest.mark.daemon(virtual_time=True, config=POLICY)
@pytest.mark.parametrize(
    "title, texts",
    [
        ("Resend in %m:%02s", ["Resend in 1:00", "Resend in 0:59", "Resend in 0:09"]),
        ("%ds后重发", ["60s后重发", "59s后重发", "9s后重发"]),
    ],
)
def test_the_button_counts_by_itself(service, open_page, title, texts):
    # Time is frozen in the daemon, so the page itself counts, by a clock that the test sets.
    service.daemon("COUNTDOWN", "START", f"login:{PHONE}", "COUNT", "60", "TITLE", title)
    page = open_page(script="window.clock = 0; performance.now = () => clock")
    page.fill(page.phone, PHONE)
    page.code.click()
    for clock, text in zip([0, 1_000, 51_000], texts):
        page.driver.execute_script(f"window.clock = {clock}")
        eventually(lambda text=text: page.button == text, text)


@pytest.mark.daemon(virtual_time=True, config=POLICY)
def test_the_page_asks_again_for_a_title_that_it_cannot_count(service, open_page):
    key = f"login:{PHONE}"
    service.daemon("COUNTDOWN", "START", key, "COUNT", "60", "TITLE", "%m min %02s s")
    page = open_page()
    page.fill(page.phone, PHONE)
    page.code.click()
    eventually(lambda: page.button == "1 min 00 s", "it shows the title")
    service.advance("20s")
    eventually(lambda: page.button == "0 min 40 s", "it shows the new title")


@pytest.mark.daemon(virtual_time=True, config=POLICY)
def test_the_button_is_enabled_at_the_end_and_after_a_reload_continues(service, open_page):
    page = open_page()
    page.ask_for_a_code()
    eventually(lambda: page.button.startswith("Resend in"), "it counts")
    page.driver.refresh()
    eventually(lambda: page.button.startswith("Resend in"), "it counts again")
    service.daemon("COUNTDOWN", "RETIME", f"login:{PHONE}", "300ms")
    page.driver.refresh()
    eventually(lambda: page.button == "Resend in 0:01", "it counts the rest")
    service.advance("300ms")
    eventually(lambda: page.resend.is_enabled() and page.button == "Resend code", "it is enabled")


@pytest.mark.daemon(config=POLICY)
def test_it_reports_that_the_daemon_is_down_and_recovers(service, open_page, daemon):
    page = open_page()
    daemon.kill()
    page.ask_for_a_code()
    eventually(lambda: page.says("Try again in a moment."), "it is reported")
    eventually(page.resend.is_enabled, "it can be tried again")
    daemon.start_again()
    page.ask_for_a_code()
    eventually(lambda: page.says("We sent you a code."), "it works again")


@pytest.mark.daemon(config=POLICY)
def test_it_reports_that_the_service_is_down(service, open_page):
    page = open_page()
    service.close()
    page.ask_for_a_code()
    eventually(lambda: page.says("The service cannot be reached."), "it is reported")
    assert page.resend.is_enabled()


@pytest.mark.daemon(config=POLICY)
def test_it_works_without_https(service, open_page):
    # A browser trusts 127.0.0.1 like HTTPS, but not another name.
    url = f"http://login.example:{service.port}"
    page = open_page(url, hosts=["login.example"])
    assert page.driver.execute_script("return isSecureContext") is False
    page.ask_for_a_code()
    eventually(lambda: page.says("We sent you a code."), "it is sent")


@pytest.mark.daemon(config=POLICY)
@pytest.mark.parametrize("width", [320, 390, 1280])
def test_it_fits_and_is_labelled(open_page, width):
    page = open_page(width=width)
    assert page.driver.execute_script("return document.documentElement.scrollWidth") <= width
    for field in page.driver.find_elements(By.TAG_NAME, "input"):
        assert field.accessible_name
        assert field.get_attribute("aria-describedby")
    for button in page.driver.find_elements(By.TAG_NAME, "button"):
        assert button.size["height"] >= 44  # large enough for a finger
