"""A gateway, an app that issues tickets for it, and a reader of its streams."""

import base64
import contextlib
import hashlib
import hmac
import http.client
import http.server
import json
import os
import pathlib
import queue
import signal
import socket
import subprocess
import tempfile
import threading
import time

from countdownd import PATIENCE, PROJECT, eventually, reserved_port

COMPONENTS = PROJECT / "Gateway/Sources/Gateway/Components"
KEY = "0123456789abcdef0123456789abcdef"
SERVER_KEY = "server-key-server-key-server-key-1"


def binary():
    named = os.environ.get("COUNTDOWN_GATEWAY")
    return pathlib.Path(named or PROJECT / "Gateway/.build/debug/countdown-gateway").resolve()


def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def ticket(watch, life=300, **claims):
    """Returns a ticket as any JWT library makes it."""
    header = base64url(json.dumps({"alg": "HS256", "typ": "JWT", "kid": "test"}).encode())
    claims = {"exp": int(time.time()) + life, "watch": watch, "jti": os.urandom(8).hex()} | claims
    signed = f"{header}.{base64url(json.dumps(claims).encode())}"
    return f"{signed}.{base64url(hmac.new(KEY.encode(), signed.encode(), hashlib.sha256).digest())}"


def bearer(text, **headers):
    return {"Authorization": f"Bearer {text}"} | headers


class Server:
    """An HTTP server. Subclasses define `connect`, which returns a connection."""

    def ask(self, path, method="GET", body=None, headers=()):
        """Sends a request; returns the status, the headers and the body, decoded if it is JSON."""
        connection = self.connect()
        connection.request(method, path, body, dict(headers))
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        is_json = "json" in (answer.getheader("Content-Type") or "")
        value = json.loads(text) if is_json and text else text.decode()
        return answer.status, answer.headers, value

    def problem(self, path, method="GET", body=None, headers=()):
        """Sends a request that must be refused; returns the status and the detail."""
        status, found, value = self.ask(path, method, body, headers)
        assert found["Content-Type"] == "application/problem+json", (status, value)
        assert set(value) == {"title", "status", "detail"} and value["status"] == status
        return status, value["detail"]

    def stream(self, text, last=None, **headers):
        return Stream(self, text, last, headers)

    def eventual_stream(self, ticket, last=None):
        """Asks with a ticket of `ticket()` until it is not refused; returns the stream."""

        def stream():
            with contextlib.suppress(Refused):
                return self.stream(ticket(), last)

        return eventually(stream, "it is not refused")


class Local(Server):
    """An HTTP server on this machine."""

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/"

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)


class Admin(Local):
    """Where a gateway serves its figures."""

    def __init__(self, port):
        self.port = port


class Refused(AssertionError):
    """The gateway opens no stream."""


class Gateway(Local):
    def __init__(self, daemon, *options, origins=()):
        self.directory = tempfile.TemporaryDirectory(prefix="gateway-")
        self.folder = pathlib.Path(self.directory.name)
        self.keys = self.folder / "keys"
        self.keys.write_text(f"test {KEY}\n")
        self.server_key = self.folder / "server-key"
        self.server_key.write_text(SERVER_KEY)
        self.options = ["--socket", daemon.path, "--ticket-keys", self.keys, *options]
        for origin in origins:
            self.options += ["--allowed-origin", origin]
        # A gateway that is stopped and started again has the same ports.
        self.port, self.admin = reserved_port(), Admin(reserved_port())
        self.start()

    def start(self):
        self.log_path = self.folder / "log"
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                [binary(), *self.options, "--listen", f"127.0.0.1:{self.port}",
                 "--admin-listen", f"127.0.0.1:{self.admin.port}"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)  # fmt: skip
        eventually(lambda: f"port={self.port}" in self.log, "it listens")

    @property
    def log(self):
        assert self.process.poll() is None, self.log_path.read_text()
        return self.log_path.read_text()

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        self.process.wait(timeout=PATIENCE)

    def close(self):
        try:
            if self.process.poll() is None:
                self.stop()
                assert self.process.returncode == 0, self.log_path.read_text()
            assert "Fatal" not in self.log_path.read_text()
        finally:
            self.process.kill()
            self.process.wait()
            self.directory.cleanup()


class Stream:
    """A stream of server-sent events, which counts the comments."""

    def __init__(self, gateway, text, last=None, headers=()):
        self.connection = gateway.connect()
        headers = bearer(text, **dict(headers))
        if last is not None:
            headers["Last-Event-ID"] = str(last)
        self.connection.request("GET", "/v1/events", headers=headers)
        self.answer = self.connection.getresponse()
        if self.answer.status != 200:
            raise Refused(self.answer.read())
        self.last, self.comments = None, 0

    def next(self):
        """Returns the next message; None at the end."""
        data = None
        while line := self.answer.readline():
            line = line.decode().rstrip("\n")
            if line.startswith(":"):
                self.comments += 1
                assert self.comments < 10, "it is silent for minutes"
            elif line.startswith("id: "):
                self.last = line[4:]
            elif line.startswith("data: "):
                data = json.loads(line[6:])
            elif not line and data is not None:
                return data
        return None

    def until(self, event):
        """Returns the messages up to and including this event."""
        found = []
        while not found or found[-1]["event"] != event:
            message = self.next()
            assert message is not None, f"it ended after {found}"
            found.append(message)
        return found

    def close(self):
        # The response has its own file for the socket.
        self.answer.close()
        self.connection.close()


class App:
    """A small web server: pages by path, tickets, the components, and the paths of POST requests,
    each of which starts a countdown of `count` seconds.

    `refusal` is the status and the text that `/ticket` answers instead of a ticket. `/v1/events` is
    a gateway that sends what is in `messages`, after it has refused with `stream_refusals`; a text
    there is an answer with that type. `streams` counts the requests. `asked` has the headers of each
    request for a ticket.
    """

    def __init__(self, daemon):
        self.daemon, self.pages, self.watch, self.life, self.tickets = daemon, {}, {}, 300, 0
        self.posts, self.count, self.refusal, self.messages = [], 600, None, queue.SimpleQueue()
        self.stream_refusals, self.streams, self.asked = [], 0, []
        app = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self, text, type="text/html", status=200):
                self.send_response(status)
                self.send_header("Content-Type", f"{type}; charset=utf-8")
                self.send_header("Content-Length", str(len(text.encode())))
                if origin := self.headers["Origin"]:
                    self.send_header("Access-Control-Allow-Origin", origin)
                    self.send_header("Access-Control-Allow-Credentials", "true")
                self.end_headers()
                self.wfile.write(text.encode())

            def do_GET(self):
                if self.path == "/ticket":
                    app.tickets += 1
                    app.asked.append(self.headers)
                    if app.refusal:
                        return self.answer(app.refusal[1], status=app.refusal[0])
                    return self.answer(ticket(app.watch, app.life), "text/plain")
                if self.path in app.pages:
                    kind = {"css": "css", "js": "javascript"}.get(self.path.rpartition(".")[2], "html")
                    return self.answer(app.pages[self.path], f"text/{kind}")
                # /static/1/ and /static/2/ are two versions.
                if self.path.startswith("/static/"):
                    file = COMPONENTS / self.path.rpartition("/")[2]
                    return self.answer(file.read_text(), "text/javascript")
                if self.path == "/v1/events":
                    return self.stream()
                self.send_error(404)

            def stream(self):
                app.streams += 1
                if app.stream_refusals:
                    status = app.stream_refusals.pop()
                    if isinstance(status, str):
                        return self.answer("", status)
                    return self.answer("no", status=status)
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
                self.close_connection = True
                while (block := app.messages.get()) is not None:
                    self.wfile.write(f"{block}\n\n".encode())

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"] or 0))
                app.posts.append(self.path)
                with app.daemon.connect() as client:
                    client("COUNTDOWN", "START", "+4512345678", "COUNT", app.count)
                self.answer("ok")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def origin(self):
        return f"http://127.0.0.1:{self.server.server_port}"

    def send(self, event, **fields):
        """Sends a message on the stream of `/v1/events`; without an event, a comment."""
        data = json.dumps({"event": event} | fields)
        self.messages.put(f"data: {data}" if event else f": {fields['now_ms']}")

    def close(self):
        self.messages.put(None)
        self.server.shutdown()
        self.server.server_close()


def raw(gateway, data):
    """Returns a socket that has sent these bytes."""
    connection = socket.create_connection(("127.0.0.1", gateway.port), timeout=PATIENCE)
    connection.sendall(data)
    return connection
