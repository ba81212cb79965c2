"""The proxy's example of docs/howto/gateway.md: nginx with HTTP/2."""

import shutil
import socket
import subprocess

import pytest

from browser import needs_browser
from countdownd import PATIENCE, PROJECT, eventually, reserved_port
from gateway import bearer, ticket
from pages import blocks
from web import BUTTON, PHONE

pytestmark = pytest.mark.skipif(not shutil.which("nginx"), reason="nginx is not installed")

TABS = 8


@pytest.fixture
def proxy(app, start_gateway, tmp_path):
    """The gateway behind nginx as the page configures it; returns the port of nginx."""
    app.watch = {"resend": f"countdown:{PHONE}"}
    gateway = start_gateway(
        "--allowed-host", "events.example", "--trust-forwarded-for", origins=[app.origin])
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj",
         "/CN=events.example", "-keyout", key, "-out", certificate],
        check=True, capture_output=True)  # fmt: skip
    port = reserved_port()
    (server,) = [
        block.text for block in blocks(PROJECT / "docs/howto/gateway.md")
        if block.notes.get("file") == "nginx.conf"]  # fmt: skip
    for old, new in [
        ("listen 443", f"listen 127.0.0.1:{port}"), ("127.0.0.1:8787", f"127.0.0.1:{gateway.port}"),
        ("/etc/ssl/certs/events.example.pem", str(certificate)),
        ("/etc/ssl/private/events.example.key", str(key)),
    ]:  # fmt: skip
        assert old in server
        server = server.replace(old, new)
    folders = "".join(
        f"{name}_temp_path {tmp_path}/{name};"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (tmp_path / "nginx.conf").write_text(
        f"daemon off; pid {tmp_path}/pid; error_log {tmp_path}/error.log; events {{}}"
        f"http {{ access_log off; {folders}\n{server}}}")
    process = subprocess.Popen(
        ["nginx", "-c", tmp_path / "nginx.conf", "-e", tmp_path / "error.log"],
        stdin=subprocess.DEVNULL)

    def listens():
        assert process.poll() is None, (tmp_path / "error.log").read_text()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    eventually(listens, "nginx listens")
    yield port
    process.terminate()
    process.wait(timeout=PATIENCE)


def curl(port, path, *options):
    done = subprocess.run(
        ["curl", "-sk", "-o", "/dev/null", "-w", "%{http_version} %{http_code}", "--resolve",
         f"events.example:{port}:127.0.0.1", *options, f"https://events.example:{port}{path}"],
        capture_output=True, text=True)  # fmt: skip
    return done.stdout.split()


def test_nginx_serves_http_2_and_keeps_figures_and_commands_inside(proxy):
    assert curl(proxy, "/components/countdown-button.js") == ["2", "200"]
    assert curl(proxy, "/v1/views/resend") == ["2", "401"]
    headers = [f"-H{name}: {value}" for name, value in bearer(ticket({"a": "timer:b"})).items()]
    assert curl(proxy, "/v1/views/a", *headers) == ["2", "404"]
    for path in ("/v1/commands", "/v1/revoke"):
        assert curl(proxy, path) == ["2", "403"], path
    for path in ("/metrics", "/dashboard", "/dashboard/data"):
        assert curl(proxy, path) == ["2", "404"], path


@needs_browser
def test_over_http_2_more_than_six_tabs_follow(proxy, app, open_page, client):
    client("COUNTDOWN", "START", PHONE, "COUNT", "600")
    app.pages["/"] = BUTTON.format(gateway=f"https://events.example:{proxy}/")
    page = open_page(hosts=["events.example"])
    page.until("counting")
    for _ in range(TABS - 1):
        page.driver.switch_to.new_window("tab")
        page.driver.get(app.origin)
        page.until("counting")
    client("COUNTDOWN", "CANCEL", PHONE)
    for window in page.driver.window_handles:
        page.driver.switch_to.window(window)
        page.until("ready")
