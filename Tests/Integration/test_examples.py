"""The login services of Examples/, each with the daemon and its policy, over HTTP on loopback."""

import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request

import pytest

from countdownd import PATIENCE, PROJECT, eventually, reserved_port

LOGIN = PROJECT / "Examples" / "login"
POLICY = (LOGIN / "countdownd.yaml").read_text()
PHONE = "+4512345678"
UNREACHABLE = "+4512340000"


def flask_command(port):
    return [sys.executable, "-m", "flask", "--app", LOGIN / "python" / "app.py", "run", "-p", port]


def swift_command(_):
    for kind in ("debug", "release"):
        path = PROJECT / "Examples" / ".build" / kind / "login-service"
        if path.exists():
            return [path]
    pytest.skip("the Swift service is not built: make examples")


class Service:
    """A login service, and the codes that its provider sent."""

    def __init__(self, command, daemon):
        self.port = str(reserved_port())
        self.daemon = daemon.connect()
        self.url = f"http://127.0.0.1:{self.port}"
        self.output = daemon.directory / "service"
        self.log = daemon.directory / "service.log"
        environment = os.environ | {"COUNTDOWND_SOCKET": str(daemon.path), "PORT": self.port}
        # A file for each: where output is not buffered, the log's lines come between its words.
        with open(self.output, "wb") as output, open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [str(word) for word in command(self.port)],
                env=environment,
                cwd=daemon.directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=log,
            )
        eventually(self.answers, "the service answers")

    def answers(self):
        assert self.process.poll() is None, self.log.read_text()
        try:
            self.http("/")
        except urllib.error.URLError:
            return False
        return True

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        finally:
            self.process.kill()

    def http(self, path, body=None):
        """Sends a request, and returns the status and the text of the response."""
        request = urllib.request.Request(self.url + path)
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as answer:
            with answer:
                return answer.code, answer.read().decode()

    def post(self, path, **body):
        status, text = self.http(path, body)
        return status, json.loads(text)

    def send(self, token, phone=PHONE):
        return self.post("/send", phone=phone, token=token)

    def verify(self, code):
        status, answer = self.post("/verify", phone=PHONE, code=code)
        return status, answer.get("reason")

    def button(self, phone=PHONE):
        status, text = self.http("/status?" + urllib.parse.urlencode({"phone": phone}))
        assert status == 200
        return json.loads(text)

    def advance(self, duration):
        self.daemon("CLOCK", "ADVANCE", duration)

    @property
    def sent(self):
        """The codes sent to the phone."""
        return re.findall(rf"^{re.escape(PHONE)} ([0-9]{{6}})$", self.output.read_text(), re.M)


@pytest.fixture(params=[flask_command, swift_command], ids=["python", "swift"])
def service(request, daemon):
    service = Service(request.param, daemon)
    yield service
    service.close()


def other(code):
    return f"{(int(code) + 1) % 1_000_000:06}"


@pytest.mark.daemon(virtual_time=True, config=POLICY)
def test_the_login_example_works(service):
    status, page = service.http("/")
    assert status == 200 and 'id="resend"' in page
    assert service.button()["state"] == "ready"

    status, answer = service.send("first")
    assert (status, answer["button"]["title"]) == (200, "Resend in 1:00")
    assert len(service.sent) == 1

    # A refresh does not change the countdown.
    service.advance("1s")
    for _ in range(3):
        button = service.button()
        assert (button["state"], button["title"]) == ("counting", "Resend in 0:59")
        assert (button["remaining"], button["remaining_ms"], button["step_ms"]) == (59, 59_000, 1_000)

    # A repeated request is the same send; another press is refused.
    assert service.send("first")[0] == 200
    status, answer = service.send("second")
    assert (status, answer["button"]["title"]) == (429, "Resend in 0:59")
    assert len(service.sent) == 1

    # After three wrong codes, even the right one is refused.
    first = service.sent[0]
    for _ in range(3):
        assert service.verify(other(first)) == (403, "wrong")
    assert service.verify(first) == (403, "locked")

    # Resend, after the cooldown.
    service.advance("59s")
    button = service.button()
    assert (button["state"], button["title"]) == ("ready", "Resend code")
    status, answer = service.send("third")
    assert (status, answer["button"]["title"]) == (200, "Resend in 2:00")
    _, second = service.sent

    assert service.verify(second) == (200, None)
    assert service.verify(second) == (403, "passed")


@pytest.mark.daemon(virtual_time=True, config=POLICY)
def test_a_double_submit_is_one_send(service):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(service.send, ["same"] * 8))
    assert [status for status, _ in answers] == [200] * 8
    assert len(service.sent) == 1


@pytest.mark.daemon(virtual_time=True, config=POLICY)
def test_a_code_is_sent_although_the_reply_was_lost(service, daemon):
    service.button()  # it is connected now

    def connections():
        return pathlib.Path("/proc/net/unix").read_text().count(f" {daemon.path}\n")

    # The client of Flask's service waits 2 s for a reply, and asks again with the token.
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        with daemon.paused():
            before = connections()
            press = pool.submit(service.send, "same")
            eventually(lambda: connections() > before or press.done(), "it has asked again")
        first, _ = press.result()
    assert first in (200, 503)
    assert service.send("same")[0] == 200
    assert len(service.sent) == 1


@pytest.mark.daemon(virtual_time=True, config=POLICY)
def test_many_tabs_are_one_send(service):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(service.send, [f"tab-{n}" for n in range(8)]))
    assert sorted(status for status, _ in answers) == [200] + [429] * 7
    assert len(service.sent) == 1


@pytest.mark.daemon(virtual_time=True, config=POLICY)
def test_a_failed_send_does_not_count(service):
    # More attempts than the policy allows in an hour.
    for attempt in range(7):
        status, answer = service.send(f"press {attempt}", UNREACHABLE)
        assert (status, answer["button"]["state"]) == (502, "ready")
    assert service.button(UNREACHABLE)["state"] == "ready"


@pytest.mark.daemon(virtual_time=True, config=POLICY)
def test_one_address_cannot_buy_codes_for_many_numbers(service):
    answers = [service.send(f"t{n}", f"+45123{n:05}") for n in range(11, 23)]
    assert [status for status, _ in answers] == [200] * 10 + [429] * 2
    assert "Too many codes" in answers[-1][1]["message"]
    service.advance("1h")
    assert service.send("later", "+4512300099")[0] == 200


@pytest.mark.daemon(virtual_time=True, config=POLICY)
def test_a_code_is_valid_for_five_minutes(service):
    service.send("first")
    service.advance("5m")
    assert service.verify(service.sent[0]) == (403, "expired")


@pytest.mark.daemon(virtual_time=True, config=POLICY)
def test_bad_input_changes_nothing(service):
    assert service.http("/send", {"phone": "12", "token": "x"})[0] == 400
    assert service.http("/send", {"phone": PHONE})[0] == 400
    assert service.http("/send", {"phone": PHONE, "token": ""})[0] == 400
    assert service.http("/verify", {"phone": PHONE, "code": 123456})[0] == 400
    assert service.http("/status?phone=12")[0] == 400
    assert service.verify("123456") == (403, "expired")
    assert service.sent == [] and service.button()["state"] == "ready"


@pytest.mark.daemon(config=POLICY)
def test_a_service_reports_that_the_daemon_is_down(service, daemon):
    assert service.send("first")[0] == 200
    daemon.kill()
    answers = [service.send("second"), service.post("/verify", phone=PHONE, code="123456")]
    status, text = service.http("/status?" + urllib.parse.urlencode({"phone": PHONE}))
    for status, answer in [*answers, (status, json.loads(text))]:
        assert status == 503
        assert answer == {"message": "Signing in is not possible right now. Try again in a moment."}
    daemon.start_again()
    assert service.button()["state"] == "counting"


def test_what_a_view_controller_started_leaves_with_it(daemon):
    """The example is built with the Address Sanitizer, which finds uses of released memory."""
    program = PROJECT / "Examples" / ".build-address" / "debug" / "view-controllers"
    if not program.exists():
        pytest.skip("the example is not built: make examples")
    # The program itself checks for leaks, because weak references look like leaks.
    environment = os.environ | {"COUNTDOWND_SOCKET": str(daemon.path), "ASAN_OPTIONS": "detect_leaks=0"}
    done = subprocess.run([program], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done
    # Changes before the first snapshot are only in the snapshot.
    for event in [
        "countdown tick", "countdown ready", "hud did-disappear", "timer fired", "page (loaded|snapshot): content",
        "gate (pending|snapshot): pending",
    ]:  # fmt: skip
        assert re.search(f"^{event}", done.stdout, re.M), (event, done)
