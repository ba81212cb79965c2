"""Pages with the components, under a strict Content-Security-Policy."""

from selenium.webdriver.common.by import By

from countdownd import eventually

PHONE = "+4512345678"

HEAD = """<!doctype html><html lang="en"><title>Test</title>
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'self'
  'nonce-test'; connect-src *; img-src data:; require-trusted-types-for 'script'">
<link rel="icon" href="data:,">
"""
# A login page as in the tutorial.
BUTTON = (
    HEAD
    + """<script type="module" src="/static/1/countdown-button.js"></script>
<main><h1>Log in</h1><label>Code <input id="field"></label>
<countdown-button alias="resend" gateway="{gateway}"><button>Send code</button></countdown-button>
</main><script nonce="test">
const host = document.querySelector('countdown-button'), button = host.querySelector('button')
let clicks = 0
button.addEventListener('click', () => {{
  clicks++
  if (!window.isSilent) fetch('/send', {{method: 'POST'}})
}})
</script>"""
)
HUD = (
    HEAD
    + """<script type="module" src="/static/1/countdown-hud.js"></script>
<main><h1>Upload</h1><button id="below">Below</button></main>
<countdown-hud alias="hud" gateway="{gateway}"></countdown-hud>
<script nonce="test">
const states = [], taps = [], hud = document.querySelector('countdown-hud')
let clicks = 0
below.onclick = () => clicks++
hud.addEventListener('hud-change', event => states.push(event.detail.event))
hud.addEventListener('hud-tap', event => taps.push(event.detail.where))
</script>"""
)
# Stops the clocks of the page. `skew` moves both of them, `asleep` only the wall clock. Timers run.
CLOCKS = """window.skew = window.asleep = 0
const [steady, wall] = [performance.now(), Date.now()]
performance.now = () => steady + window.skew
Date.now = () => wall + window.skew + window.asleep"""


class Page:
    def __init__(self, driver):
        self.driver = driver

    def js(self, script):
        return self.driver.execute_script(f"return {script}")

    def run(self, script):
        return self.driver.execute_script(script)

    def warnings(self):
        """Returns what the components have written to the console since the last call."""
        texts = [text for _, text in self.driver.console()]
        return [text.split("countdownd: ")[1].rstrip('"') for text in texts if "countdownd: " in text]

    # The button

    @property
    def button(self):
        return self.driver.find_element(By.CSS_SELECTOR, "countdown-button button")

    def press(self):
        self.button.click()

    @property
    def text(self):
        return self.js("document.querySelector('countdown-button button').textContent")

    @property
    def state(self):
        return self.js("document.querySelector('countdown-button').dataset.state")

    @property
    def is_offline(self):
        return self.js("document.querySelector('countdown-button').hasAttribute('data-offline')")

    @property
    def is_blocked(self):
        return self.js(
            "document.querySelector('countdown-button button').getAttribute('aria-disabled') == 'true'")

    @property
    def said(self):
        return self.js("document.querySelector('countdown-button').shadowRoot.querySelector('span').textContent")

    def passes(self, seconds):
        """Lets time pass for a page with CLOCKS."""
        self.run(f"skew += {seconds * 1_000}")

    def until(self, *states):
        eventually(lambda: self.state in states, f"the button is {states}")

    def seconds(self):
        """Returns the seconds that the button shows; 0 when it can be pressed."""
        text = self.text
        assert "NaN" not in text, text
        if ":" not in text:
            return 0
        parts = [int(part) for part in text.split()[-1].split(":")]
        return sum(part * 60**power for power, part in enumerate(reversed(parts)))

    # The HUD

    def part(self, name):
        return self.js(f"document.querySelector('countdown-hud').shadowRoot.querySelector('[part={name}]')")

    @property
    def hud(self):
        return self.js("document.querySelector('countdown-hud').dataset.state")
