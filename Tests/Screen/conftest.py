"""countdown-gateway, as browsers, curl and monitoring see it: `make test-screen`.

Three fixtures of the integration tests are available, too.
"""

import importlib.util
import pathlib
import sys

import pytest

INTEGRATION = pathlib.Path(__file__).resolve().parents[1] / "Integration"
sys.path.insert(0, str(INTEGRATION))

spec = importlib.util.spec_from_file_location("integration", INTEGRATION / "conftest.py")
integration = importlib.util.module_from_spec(spec)
spec.loader.exec_module(integration)
pytest_configure = integration.pytest_configure
start_daemon, daemon, client = integration.start_daemon, integration.daemon, integration.client

from browser import browser  # noqa: E402
from gateway import App, Gateway  # noqa: E402
from web import BUTTON, HUD, PHONE, Page  # noqa: E402


@pytest.fixture
def start_gateway(daemon):
    """Starts gateways, and stops and checks all of them after the test."""
    gateways = []

    def start(*options, **settings):
        gateways.append(Gateway(daemon, *options, **settings))
        return gateways[-1]

    yield start
    for gateway in gateways:
        gateway.close()


@pytest.fixture
def gateway(start_gateway):
    return start_gateway()


@pytest.fixture
def app(daemon):
    """An app that issues tickets for its pages, which read from the gateway."""
    app = App(daemon)
    yield app
    app.close()


@pytest.fixture
def site(app, start_gateway):
    """The app with its pages, and a gateway for it."""
    app.gateway = start_gateway(origins=[app.origin])
    app.watch = {"resend": f"countdown:{PHONE}", "hud": "hud:screen"}
    app.pages = {path: page.format(gateway=app.gateway.url) for path, page in
                 {"/": BUTTON, "/hud": HUD}.items()}  # fmt: skip
    return app


@pytest.fixture
def open_page(app):
    """Opens pages of the app, each in a browser of its own."""
    drivers = []

    def open_page(path="/", script="", **options):
        drivers.append(browser(**options))
        # Runs before the scripts of the page.
        drivers[-1].preload(script)
        drivers[-1].get(app.origin + path)
        return Page(drivers[-1])

    yield open_page
    for driver in drivers:
        driver.quit()
