"""What the middleware is tested with: an app of each framework, and a proxy before its daemon.

Each app in `middleware/` has the routes of docs/reference/middleware.md's options, and two words of
its environment: COUNTDOWND_SOCKET, and RUNS, a file. A run of a handler appends "NAME KEY" to RUNS
(the route without its slash, and Idempotency-Key or "-"). It listens on a free port of 127.0.0.1
and prints "port N".

| route | |
|---|---|
| `POST /orders` | idempotent, TTL 24h, lease 2s, the user is the header `X-User`, or nobody |
| `POST /payments` | the same handler and options, in a function of its own |
| `POST /brief` | the same with TTL 3s |
| `GET /search` | burst 10, rate 10/1h, by address |
| `POST /login` | burst 10, rate 10/1h, by address; fails closed |
| `GET /costly` | burst 10, rate 10/1h, by address; costs 5 |
| `GET /health` | the limiter of `/search`, which skips this path |
| `GET /open` | burst 1, rate 1/1h, by address; fails open |
| `GET /unknown` | the named limit `nowhere`, which is not configured; fails open |
| `GET /nokey` | burst 1, rate 1/1h, by a function that gives "" |

The address is what the header `X-Client` says. The body of an order is JSON: `answer` is one of
ANSWERS. With `wait`, the handler first waits for so many seconds, or until there is a file
`RUNS.KEY`. `size` is that of the body of the answer "huge".
"""

import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import typing

import pytest

from compiled import once, typescript_client
from countdownd import PATIENCE, PROJECT, Daemon, eventually
from proxy import Unreliable

APPS = PROJECT / "Tests/Integration/middleware"

#: The answers of a handler that are stored, with their status.
ANSWERS = {
    "json": 200,  # {"id": 1}
    "text": 200,  # text/plain, "tea for two: 2 €" in UTF-8
    "bytes": 200,  # application/octet-stream, all 256 bytes in their order
    "created": 201,  # {"id": 1}, with Location: /orders/1
    "redirect": 303,  # Location: /orders/1
    "empty": 204,
    "cookie": 200,  # {"id": 1}, with two cookies: a=1 and b=2
    "missing": 404,  # {"message": "no such tea"}
}
#: Those that are not: "many" has Retry-After: 7, and "raise" raises an exception.
AGAIN = {"many": 429, "error": 500, "raise": 500}
# There are also "stream": a body in parts, without a length; "huge": text of `size` bytes; and
# "die": the process kills itself with SIGKILL.


def python(name, *more):
    def words():
        pytest.importorskip(name)
        environment = {"PYTHONPATH": str(PROJECT / "Clients/Python/src")}
        return [sys.executable, APPS / f"{name}_app.py", *more], environment

    return words


def express():
    """The app, with its modules beside it."""
    found = pathlib.Path("/usr/share/nodejs/express")
    if not found.exists():
        pytest.skip("Express is not installed: Debian's node-express")
    client = typescript_client()

    def make(folder):
        (folder / "node_modules").mkdir()
        (folder / "node_modules/countdownd").symlink_to(client)
        (folder / "node_modules/express").symlink_to(found)
        shutil.copy(APPS / "express.mjs", folder)

    app = once("middleware-express", make, APPS / "express.mjs", str(client))
    # Debian's Express finds its parts there.
    return ["node", app / "express.mjs"], {"NODE_PATH": "/usr/share/nodejs"}


def go():
    if not shutil.which("go"):
        pytest.skip("go is not installed")

    def make(folder):
        environment = {**os.environ, "GOFLAGS": "-mod=mod", "GOPROXY": "off"}
        done = subprocess.run(
            ["go", "build", "-o", folder / "app", "."], cwd=APPS / "go", env=environment,
            capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    return [once("middleware-go", make, APPS / "go", PROJECT / "Clients/Go") / "app"], {}


#: How each app is started, by its file in `middleware/`, with an argument.
FRAMEWORKS = {
    "django_app.py": python("django"), "django_app.py async": python("django", "async"),
    "fastapi_app.py": python("fastapi"), "express.mjs": express,
    "go": go}  # fmt: skip


class Reply(typing.NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    def __getitem__(self, name):
        return self.headers[name]

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def content(self):
        """What repetitions have in common."""
        names = ("Content-Type", "Location", "Set-Cookie", "Cache-Control")
        return self.status, {name: self.headers.get_all(name) for name in names}, self.body

    @property
    def is_replayed(self):
        return self["Idempotency-Replayed"] == "true"


class App:
    """An app of a framework, with a daemon on virtual time and a proxy between them."""

    def __init__(self, framework):
        self.framework = framework
        self.words, more = FRAMEWORKS[framework]()
        # Paths of sockets are short.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="middleware-"))
        self.daemon = Daemon(virtual_time=True)
        self.proxy = Unreliable(self.daemon, self.folder / "proxy")
        self.runs_file = self.folder / "runs"
        self.runs_file.touch()
        self.log_file = self.folder / "log"
        self.environment = {
            **os.environ, **more, "COUNTDOWND_SOCKET": self.proxy.path, "RUNS": str(self.runs_file)}
        # The timeouts of calls are long then: a busy machine is no daemon that hangs.
        self.environment["COUNTDOWND_TESTING"] = "1"
        self.process = None
        self.start()

    def start(self):
        with open(self.log_file, "ab") as log:
            self.process = subprocess.Popen(
                [str(word) for word in self.words], env=self.environment, cwd=self.folder,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True)
        line = self.process.stdout.readline()
        assert line.startswith("port "), f"{line}\n{self.log}"
        self.port = int(line.split()[1])
        # Nobody reads the rest.
        threading.Thread(target=self.process.stdout.read, daemon=True).start()

    def close(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.proxy.listener.close()
        self.daemon.close()
        shutil.rmtree(self.folder)

    @property
    def log(self):
        return self.log_file.read_text()

    def advance(self, duration):
        with self.daemon.connect() as client:
            client("CLOCK", "ADVANCE", duration)

    def connection(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def ask(self, method, path, body=None, **headers):
        with contextlib.closing(self.connection()) as connection:
            connection.request(method, path, body, headers)
            reply = connection.getresponse()
            return Reply(reply.status, reply.headers, reply.read())

    def get(self, path, client):
        return self.ask("GET", path, **{"X-Client": client})

    def request(self, key, answer="json", path="/orders", user=None, **fields):
        """Returns the words of `ask` for an order."""
        headers = {"Content-Type": "application/json"}
        if key is not None:
            headers["Idempotency-Key"] = key
        if user is not None:
            headers["X-User"] = user
        return ("POST", path, json.dumps({"answer": answer, **fields})), headers

    def order(self, key, answer="json", path="/orders", user=None, **fields):
        words, headers = self.request(key, answer, path, user, **fields)
        return self.ask(*words, **headers)

    def runs(self, key, name="orders"):
        """Returns how often a handler has begun to run."""
        return self.runs_file.read_text().splitlines().count(f"{name} {key}")

    def wait_for_run(self, key, count=1):
        eventually(lambda: self.runs(key) >= count, lambda: f"{key} runs\n{self.log[-2000:]}")

    def let_go(self, key):
        """Ends the waiting of a handler."""
        pathlib.Path(f"{self.runs_file}.{key}").touch()

    def beside(self, *words, **fields):
        """Sends an order beside the test, and returns a function that waits for its reply."""
        found = []
        thread = threading.Thread(target=lambda: found.append(self.order(*words, **fields)))
        thread.start()

        def reply():
            thread.join(PATIENCE)
            return found[0]

        return reply
