"""Lost replies: redis-py repeats a command by itself, and TOKEN makes that safe."""

import contextlib

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from countdownd import PATIENCE, view
from proxy import Proxy

# A command, and what shows that it was done once.
COMMANDS = {
    "COUNTDOWN START": (("COUNTDOWN", "START", "k", "COUNT", 60), ("COUNTDOWN", "sends", 1)),
    "ONCE BEGIN": (("ONCE", "BEGIN", "k", "TTL", "1h"), ("ONCE", "state", b"running")),
    "THROTTLE TAKE": (("THROTTLE", "TAKE", "k", "BURST", 5, "RATE", "5/1h"), ("THROTTLE", "remaining", 4)),
    "THROTTLE REFUND": (("THROTTLE", "REFUND", "k", 1), ("THROTTLE", "remaining", 4)),
    "DEBOUNCE CALL": (("DEBOUNCE", "CALL", "k", "1h"), ("DEBOUNCE", "calls", 1)),
}


class Lossy(Proxy):
    """When told to, it loses one reply and closes the connection."""

    def __init__(self, daemon, path):
        self.lost, self.is_losing = 0, False
        super().__init__(daemon, path)

    def serve(self, client):
        with client, self.connect() as server:
            client.settimeout(PATIENCE)
            with contextlib.suppress(OSError):
                while request := client.recv(1 << 16):
                    server.sendall(request)
                    reply = server.recv(1 << 16)
                    if self.is_losing:
                        self.is_losing, self.lost = False, self.lost + 1
                        return
                    client.sendall(reply)


@pytest.fixture
def lossy(daemon):
    proxy = Lossy(daemon, str(daemon.directory / "lossy"))
    yield proxy
    proxy.listener.close()


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("how", ["terminate", "kill"])
def test_redis_py_repeats_a_command_whose_reply_was_lost(daemon, lossy, name, how):
    words, (family, field, value) = COMMANDS[name]
    library = redis.Redis(unix_socket_path=lossy.path, retry=Retry(NoBackoff(), 3))
    if name == "THROTTLE REFUND":
        library.execute_command("THROTTLE", "TAKE", "k", "BURST", 5, "RATE", "5/1h", "COST", 2)
    library.ping()
    lossy.is_losing = True
    reply = view(library.execute_command(*words, "TOKEN", "t"))
    assert lossy.lost == 1
    assert (reply["accepted"], reply["reason"]) == (1, b"repeated")
    assert reply[field] == value
    daemon.restart(how)
    again = view(daemon.connect()(*words, "TOKEN", "t"))
    assert (again["accepted"], again["reason"]) == (1, b"repeated")
    assert again["generation"] == reply["generation"]
    assert view(daemon.connect()(family, "GET", "k"))[field] == value


@pytest.mark.daemon(virtual_time=True)
def test_an_idle_key_knows_its_tokens_after_a_restart(daemon, client):
    """The key itself is over before the restart."""
    calls = [("ONCE", "BEGIN", "k", "TTL", "1s"), ("DEBOUNCE", "CALL", "k", "1s"),
             ("THROTTLE", "TAKE", "k", "BURST", 1, "RATE", "1/1s")]  # fmt: skip
    first = [view(client(*words, "TOKEN", "t"))["generation"] for words in calls]
    client("CLOCK", "ADVANCE", "5m")
    assert [client(words[0], "GET", "k") for words in calls] == [None] * 3
    assert client("CLOCK", "RESTART") > 0
    client = daemon.connect()
    assert [client(words[0], "GET", "k") for words in calls] == [None] * 3
    again = [view(client(*words, "TOKEN", "t")) for words in calls]
    assert [reply["reason"] for reply in again] == [b"repeated"] * 3
    assert [reply["generation"] for reply in again] == first
    client("CLOCK", "ADVANCE", "5m")
    assert client("DBSIZE") == 0
