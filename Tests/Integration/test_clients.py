"""Unmodified clients: redis-cli, redis-benchmark, and redis-py with either parser and protocol."""

import json
import os
import re
import select
import shutil
import subprocess
import sys

import pytest
import redis
from redis._parsers import _HiredisParser, _RESP2Parser, _RESP3Parser

from countdownd import PATIENCE, PROJECT, eventually

needs_redis_tools = pytest.mark.skipif(
    not shutil.which("redis-cli"), reason="redis-cli is not installed: Debian's redis-tools"
)


# redis-cli


@pytest.fixture(params=["-2", "-3"])
def cli(request, daemon):
    def run(*words, input=None):
        done = subprocess.run(
            ["redis-cli", "-s", daemon.path, request.param, *words],
            input=input,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0 and not done.stderr, done
        return done.stdout.rstrip("\n")

    return run


@needs_redis_tools
def test_redis_cli_prints_replies(cli):
    assert cli("PING") == "PONG"
    started = cli("COUNTDOWN", "START", "+45", "COUNT", "5", "TITLE", "%ds")
    assert re.search(r"^remaining[ \n]5$", started, re.M), started
    assert re.search(r"^title[ \n]5s$", started, re.M), started
    assert cli("COUNTDOWN", "GET", "nothing") == ""
    assert cli("--no-raw", "COUNTDOWN", "CANCEL", "+45") == "(integer) 1"
    assert cli("NONSENSE").startswith("ERR unknown command")
    assert "redis_mode:standalone" in cli("INFO", "server")
    assert "lib-name" in cli("CLIENT", "LIST")


@needs_redis_tools
def test_redis_cli_reads_json(cli):
    shown = json.loads(cli("--json", "TIMER", "SET", "t", "1h"))
    fields = dict(zip(shown[::2], shown[1::2])) if isinstance(shown, list) else shown
    assert fields["state"] == "running"


@needs_redis_tools
def test_redis_cli_with_commands_on_its_input(cli):
    assert cli(input="PING\nECHO 'a b'\nDBSIZE\n").split("\n") == ["PONG", "a b", "0"]


@needs_redis_tools
def test_redis_cli_pipe_mode_works(cli):
    data = "".join(f"TIMER SET t{number} 1h\r\n" for number in range(10_000))
    assert "errors: 0, replies: 10000" in cli("--pipe", input=data)
    assert cli("DBSIZE") == "10000"


@needs_redis_tools
def test_redis_cli_knows_the_commands(cli):
    """The replies from which redis-cli makes its help and its hints."""
    docs = cli("COMMAND", "DOCS", "COUNTDOWN")
    assert "countdown|start" in docs and "Start a countdown, or refuse" in docs
    assert int(cli("COMMAND", "COUNT")) > 20


@needs_redis_tools
def test_redis_cli_help_and_hints_on_a_terminal(daemon):
    """The interactive redis-cli sends COMMAND DOCS when it starts, and shows the reply as help."""
    master, terminal = os.openpty()
    process = subprocess.Popen(
        ["redis-cli", "-s", daemon.path],
        stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True,
        env={**os.environ, "TERM": "dumb", "HOME": str(daemon.directory)},
    )  # fmt: skip
    os.close(terminal)
    output = ""

    def read_until(text):
        nonlocal output
        while text not in output:
            assert select.select([master], [], [], PATIENCE)[0], output
            output += os.read(master, 1 << 16).decode()

    try:
        read_until("> ")
        os.write(master, b"HELP COUNTDOWN START\n")
        read_until("since:")
        plain = re.sub(r"\x1b\[[0-9;]*m", "", output)
        assert "summary: Start a countdown, or refuse" in plain
        usage = plain.split("COUNTDOWN START key")[1]
        assert re.search(r"\[COUNT n\].*\[FIRE\].*\[OWNER none\|connection\|scope:ID\]", usage), plain
    finally:
        process.kill()
        process.wait()
        os.close(master)


@needs_redis_tools
@pytest.mark.parametrize("version", ["-2", "-3"])
def test_redis_cli_subscribes(daemon, client, version):
    process = subprocess.Popen(
        ["redis-cli", "-s", daemon.path, version, "SUBSCRIBE", "timer:t"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        eventually(lambda: client("PUBSUB", "NUMSUB", "timer:t")[1] == 1, "it is subscribed")
        client("TIMER", "SET", "t", "1ms")
        output = []
        while not any('"fired"' in line for line in output):
            output.append(process.stdout.readline())
            assert output[-1], output
        text = "".join(output)
        assert "subscribe" in text and '"snapshot"' in text and '"set"' in text
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


# redis-benchmark


@needs_redis_tools
@pytest.mark.parametrize("options", [["-3"], ["-P", "32"], []])
def test_redis_benchmark_runs(daemon, options):
    for words in (
        ["-t", "ping_inline,ping_mbulk"],
        ["COUNTDOWN", "START", "key:__rand_int__", "META", "x"],
        ["TIMER", "SET", "key:__rand_int__", "10s"],
    ):
        command = ["redis-benchmark", "-s", daemon.path, "-n", "3000", "-r", "1000", "-q"]
        done = subprocess.run(
            [*command, *options, *words], capture_output=True, text=True, timeout=PATIENCE * 3
        )
        output = done.stdout + done.stderr
        assert done.returncode == 0, output
        assert "requests per second" in output
        assert "error" not in output.lower() and "warning" not in output.lower(), output
    stats = daemon.info("stats")
    assert int(stats["total_commands_processed"]) >= 12_000
    assert stats["total_error_replies"] == "0"


# redis-py


VARIANTS = [
    (2, _RESP2Parser), (3, _RESP3Parser), (2, _HiredisParser), (3, _HiredisParser),
]  # fmt: skip


@pytest.fixture(params=VARIANTS, ids=lambda variant: f"{variant[0]}-{variant[1].__name__}")
def library(request, daemon):
    """A redis.Redis for each protocol and parser."""
    protocol, parser = request.param
    library = redis.Redis(
        unix_socket_path=str(daemon.path), protocol=protocol, decode_responses=True
    )
    pool = library.connection_pool
    assert pool.connection_class is redis.UnixDomainSocketConnection
    pool.connection_kwargs["parser_class"] = parser
    library.protocol = protocol
    yield library
    connection = pool.get_connection()
    assert type(connection._parser) is parser and int(connection.protocol) == protocol
    pool.release(connection)
    library.close()


def fields(reply):
    return dict(zip(reply[::2], reply[1::2])) if isinstance(reply, list) else reply


def test_redis_py_runs_commands(library):
    assert library.ping()
    assert library.echo("ü") == "ü"
    assert library.dbsize() == 0
    shown = fields(library.execute_command("COUNTDOWN", "START", "k", "COUNT", 5))
    assert (shown["state"], shown["remaining"], bool(shown["accepted"])) == ("counting", 5, True)
    assert library.execute_command("COUNTDOWN", "GET", "nothing") is None
    with pytest.raises(redis.ResponseError, match="unknown command"):
        library.execute_command("NONSENSE")
    with pytest.raises(redis.ResponseError, match="NOTFOUND|no timer"):
        library.execute_command("TIMER", "PAUSE", "nothing")
    fraction = fields(library.execute_command("HUD", "SHOW", "s", "KIND", "progress"))
    assert fraction["fraction"] is None
    assert float(fields(library.execute_command("HUD", "PROGRESS", "s", 0.5))["fraction"]) == 0.5
    assert len(library.time()) == 2


def test_redis_py_shows_errors_as_the_page_says(library):
    page = (PROJECT / "docs/reference/errors.md").read_text()
    codes = re.findall(r"^\| `([A-Z]+)` \|", page.partition("## In libraries")[0], re.M)
    shown = dict(re.findall(r"^\| `([A-Z]+)` \| `(\w+)`.*\| without the code \|$", page, re.M))
    assert {"ERR", "LOADING", "READONLY", "NOPERM", "EXECABORT"} == shown.keys() < set(codes)
    for code in codes:
        error = library.connection_pool.connection_kwargs["parser_class"].parse_error(f"{code} why")
        assert type(error).__name__ == shown.get(code, "ResponseError"), code
        assert str(error) == ("why" if code in shown else f"{code} why")
    assert issubclass(redis.BusyLoadingError, redis.ConnectionError)
    with pytest.raises(redis.ResponseError, match="^NOTFOUND no timer 'nothing'$"):
        library.execute_command("TIMER", "PAUSE", "nothing")
    with pytest.raises(redis.ResponseError, match="^unknown command"):
        library.execute_command("NONSENSE")


def test_redis_py_asks_about_the_server(library):
    assert library.info("server")["redis_mode"] == "standalone"
    assert library.info()["connected_clients"] >= 1
    assert library.config_get("limits.max-conn*") == {
        "limits.max-connections": "20000",
        "limits.max-connections-per-uid": "10000",
    }
    assert library.config_resetstat()
    assert library.client_setname("me") and library.client_getname() == "me"
    number = library.client_id()
    assert any(int(line["id"]) == number for line in library.client_list())
    assert library.client_list(client_id=[number, 99])[0]["lib-name"].startswith("redis-py")
    assert library.client_info()["name"] == "me"
    assert library.client_kill_filter(_id="999999") == 0
    assert library.slowlog_len() >= 0 and library.slowlog_get() is not None
    assert library.slowlog_reset()
    assert library.command_count() == len(library.command())
    assert "countdown|start" in library.command_list()
    assert library.command_getkeys("COUNTDOWN", "START", "k") == ["k"]
    commands = library.command()
    assert commands["echo"]["arity"] == 2 and "fast" in commands["echo"]["flags"]
    assert "subcommands" in str(library.execute_command("COMMAND DOCS", "countdown"))
    assert library.pubsub_numpat() == 0
    assert library.pubsub_channels() == []
    assert [tuple(pair) for pair in library.pubsub_numsub("a")] == [("a", 0)]


def test_redis_py_pipelines(library):
    with library.pipeline(transaction=False) as pipeline:
        for number in range(10_000):
            pipeline.echo(number)
        assert pipeline.execute() == [str(number) for number in range(10_000)]


def test_redis_py_pipelines_are_transactions_by_default(library):
    with library.pipeline() as pipeline:
        pipeline.execute_command("TIMER", "SET", "t", "1h")
        pipeline.execute_command("THROTTLE", "TAKE", "k", "BURST", "1", "RATE", "1/1h")
        pipeline.execute_command("TIMER", "DEL", "t")
        replies = pipeline.execute()
    assert fields(replies[0])["state"] == "running" and replies[2] == 1
    assert bool(fields(replies[1])["accepted"])
    with library.pipeline() as pipeline:
        pipeline.execute_command("TIMER", "SET", "t", "1h")
        pipeline.execute_command("TIMER", "LIST")
        with pytest.raises(redis.ResponseError, match="cannot be queued"):
            pipeline.execute()
    assert library.execute_command("TIMER", "GET", "t") is None
    with library.pipeline() as pipeline, pytest.raises(redis.ResponseError, match="GENERATION"):
        pipeline.watch("t")


def test_node_redis_multi(daemon, tmp_path):
    if not shutil.which("node") or not os.path.exists("/usr/share/nodejs/redis"):
        pytest.skip("node-redis is not installed: Debian's node-redis")
    (tmp_path / "node_modules").symlink_to("/usr/share/nodejs")
    (tmp_path / "program.mjs").write_text(
        '''
        import { createClient } from "redis";
        const client = createClient({ socket: { path: process.argv[2] } });
        await client.connect();
        const replies = await client.multi().addCommand(["TIMER", "SET", "t", "1h"])
          .addCommand(["TIMER", "DEL", "t"]).exec();
        console.log(JSON.stringify(replies));
        await client.quit();
        '''
    )
    done = subprocess.run(
        ["node", "program.mjs", str(daemon.path)],
        cwd=tmp_path, env={**os.environ, "NODE_PATH": "/usr/share/nodejs"},
        capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    replies = json.loads(done.stdout)
    assert replies[1] == 1 and "running" in replies[0], replies


def test_redis_py_pipeline_is_written_before_it_is_read(library):
    """The library reads none of 4 MB of replies before it has written all commands."""
    with library.pipeline(transaction=False) as pipeline:
        for number in range(20_000):
            pipeline.execute_command("COUNTDOWN", "START", number)
        replies = pipeline.execute()
    assert len(replies) == 20_000
    assert fields(replies[-1])["key"] == "19999"


def messages(pubsub, count):
    found = []
    while len(found) < count:
        message = pubsub.get_message(timeout=PATIENCE)
        assert message, f"only {found}"
        found.append(message)
    return found


def test_redis_py_subscribes(library):
    pubsub = library.pubsub()
    pubsub.subscribe("timer:t")
    pubsub.psubscribe("tim*:t")
    first = messages(pubsub, 3)
    assert sorted(message["type"] for message in first) == ["message", "psubscribe", "subscribe"]
    library.execute_command("TIMER", "SET", "t", "1ms")
    found = messages(pubsub, 4)
    by_type = [(message["type"], json.loads(message["data"])["event"]) for message in found]
    assert sorted(by_type) == [
        ("message", "fired"), ("message", "set"), ("pmessage", "fired"), ("pmessage", "set"),
    ]  # fmt: skip
    if library.protocol == 2:
        # In RESP3 the reply to PING is no push, but redis-py takes it for a message.
        pubsub.ping("x")
        assert messages(pubsub, 1)[0]["data"] == "x"
    pubsub.unsubscribe()
    pubsub.punsubscribe()
    assert sorted(message["type"] for message in messages(pubsub, 2)) == [
        "punsubscribe", "unsubscribe",
    ]  # fmt: skip
    assert not pubsub.subscribed
    pubsub.close()


def test_redis_py_health_check_while_subscribed(daemon):
    library = redis.Redis(unix_socket_path=str(daemon.path), health_check_interval=0.01)
    pubsub = library.pubsub()
    pubsub.subscribe("timer:t")
    assert messages(pubsub, 2)[1]["type"] == "message"
    for _ in range(5):
        pubsub.get_message(timeout=0.05)
    library.execute_command("TIMER", "SET", "t", "1h")
    assert messages(pubsub, 1)[0]["channel"] == b"timer:t"
    pubsub.close()
    library.close()


def test_redis_py_monitors(library):
    with library.monitor() as monitor:
        library.execute_command("COUNTDOWN", "START", "k", "META", "secret", "TOKEN", "hidden")
        while True:
            line = monitor.next_command()
            if line["command"].startswith("COUNTDOWN START k"):
                break
    assert line["client_type"] == "unix" or line["client_address"]
    assert "secret" not in str(line) and "hidden" not in str(line)
    assert line["command"] == "COUNTDOWN START k META (redacted) TOKEN (redacted)"


def test_redis_py_reconnects(library):
    number = library.client_id()
    assert library.client_kill_filter(_id=number, skipme=False) == 1

    def another():
        # Some versions retry by themselves.
        try:
            return library.client_id() != number
        except redis.ConnectionError:
            return False

    eventually(another, "it is connected again")


# Other libraries and versions: how they parse CLIENT INFO and CLIENT LIST


ASK = """
import importlib, sys
name, path = sys.argv[1:]
module = importlib.import_module(name)
assert module.__file__.startswith(sys.path[1]), module.__file__
library = (module.Redis if name == "redis" else module.Valkey)(
    unix_socket_path=path, decode_responses=True
)
library.client_setname("me")
own = library.client_info()
assert (own["name"], own["db"], own["cmd"]) == ("me", 0, "client|info"), own
assert own["id"] == library.client_id()
(listed,) = library.client_list(client_id=[str(own["id"])])
assert (listed["addr"], listed["laddr"]) == (own["addr"], own["laddr"])
assert len(library.client_list(_type="pubsub")) == 1
assert library.client_list(_type="replica") == []
assert library.client_kill_filter(_type="pubsub", skipme=True) == 1
assert library.client_no_evict("ON") and library.ping()
"""


@pytest.mark.parametrize("folder", (PROJECT / "Tests/Integration/clients.txt").read_text().split())
def test_other_clients_read_client_info(daemon, folder):
    subscriber = daemon.connect()
    subscriber("SUBSCRIBE", "timer:t")
    done = subprocess.run(
        [sys.executable, "-c", ASK, folder.split("==")[0], daemon.path],
        env={**os.environ, "PYTHONPATH": str(PROJECT / ".build/clients" / folder)},
        capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert subscriber.is_closed()


def as_go_redis_reads(line):
    """Parses as go-redis 9.7 does: splits at each blank, and refuses unknown fields and flags."""
    numbers = (
        "id fd age idle db sub psub ssub multi watch qbuf qbuf-free argv-mem multi-mem rbs rbp obl oll "
        "omem tot-mem redir resp"
    ).split()
    texts = "addr laddr name flags events cmd user lib-name lib-ver".split()
    found = {}
    for word in line.strip().split(" "):
        name, value = word.split("=")
        assert name in numbers + texts, f"unexpected client info key {name}"
        found[name] = int(value) if name in numbers else value
    assert found["flags"] == "N" or set(found["flags"]) <= set("SOMPxbtRBdcuAUreT")
    return found


def as_node_redis_reads(text):
    """Parses as node-redis 4.5 does: finds fields by name, and converts most to numbers."""
    found = dict(re.findall(r"([^\s=]+)=([^\s]*)", text))
    numbers = (
        "id fd age idle db sub psub ssub multi qbuf qbuf-free argv-mem multi-mem obl oll omem tot-mem "
        "redir resp"
    ).split()
    for name in "addr laddr name flags events cmd user lib-name lib-ver".split():
        assert name in found
    return {**found, **{name: int(found[name]) for name in numbers}}


@pytest.mark.parametrize("read", [as_go_redis_reads, as_node_redis_reads])
def test_clients_of_other_languages_read_client_info(daemon, speaker, read):
    subscriber = daemon.connect()
    subscriber("SUBSCRIBE", "timer:t")
    own = read(speaker("CLIENT", "INFO").decode())
    assert own["id"] == speaker("CLIENT", "ID")
    assert own["laddr"] == f"{daemon.path}:0" and own["fd"] > 2
    assert own["addr"] == f"unix:{os.getpid()}" and own["user"] == str(os.getuid())
    listed = [read(line) for line in speaker("CLIENT", "LIST").decode().splitlines()]
    assert [line["flags"] for line in listed] == ["U", "PU"]
