"""Two daemons that share a Redis server. `make test-fleet` tests failovers, cut links and more."""

import os
import pathlib
import re
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "Fleet"))

import stored  # noqa: E402
from countdownd import AWAY, KEPT, PROJECT, Client, Daemon, Error, binary, eventually, reserved_port, state_file, sure, view  # noqa: E402
from fleet import Fleet  # noqa: E402
from servers import Single  # noqa: E402
from test_access import needs_root, open_up  # noqa: E402
from test_rights import connect_as, keys  # noqa: E402


def new_server():
    return Single(port=reserved_port())


@pytest.fixture(scope="module")
def servers():
    servers = new_server()
    yield servers
    servers.close()


@pytest.fixture(scope="module")
def fleet(servers):
    fleet = Fleet(servers, [None, None], replicas=0)
    yield fleet
    fleet.close()


@pytest.fixture
def clients(fleet):
    clients = [fleet.connect(0), fleet.connect(1)]
    # A test before may have stopped the server.
    for daemon, client in zip(fleet.daemons, clients):
        fleet.wait_until_open(daemon)
        eventually(lambda: daemon.info("fleet")["fleet_broken_partitions"] == "0", "the server answers")
        sure(client, "TIMER", "GET", "none")
    yield clients
    for client in clients:
        client.close()


def test_a_start_on_one_host_is_refused_on_another(clients):
    a, b = clients
    accepted = view(a("COUNTDOWN", "START", "k", "COUNT", 60, "EVERY", "1s", "TOKEN", "t"))
    refused = view(b("COUNTDOWN", "START", "k", "COUNT", 60, "EVERY", "1s"))
    assert (accepted["accepted"], refused["accepted"]) == (1, 0)
    assert refused["reason"] == b"cooldown" and refused["generation"] == accepted["generation"]
    again = view(b("COUNTDOWN", "START", "k", "TOKEN", "t"))
    assert (again["accepted"], again["reason"]) == (1, b"repeated")
    assert b("COUNTDOWN", "CANCEL", "k") == 1
    assert a("COUNTDOWN", "GET", "k") is None
    assert view(a("COUNTDOWN", "START", "k", "COUNT", 60, "EVERY", "1s"))["accepted"] == 1


def test_each_shared_kind_is_shared(clients):
    a, b = clients
    assert view(a("THROTTLE", "TAKE", "x", "BURST", 1, "RATE", "1/1h"))["accepted"] == 1
    assert view(b("THROTTLE", "TAKE", "x", "BURST", 1, "RATE", "1/1h"))["accepted"] == 0
    assert view(a("ONCE", "BEGIN", "x", "TTL", "1h"))["accepted"] == 1
    assert view(b("ONCE", "DONE", "x", "result"))["accepted"] == 1
    assert view(a("ONCE", "BEGIN", "x", "TTL", "1h"))["result"] == b"result"
    assert view(a("TIMER", "SET", "x", "1h", "PAYLOAD", "p"))["state"] == b"running"
    assert view(b("TIMER", "GET", "x"))["payload"] == b"p"
    assert view(a("GATE", "OPEN", "x", "TTL", "1h"))["state"] == b"open"
    assert view(b("GATE", "GET", "x"))["state"] == b"open"
    assert view(a("DEBOUNCE", "CALL", "x", "1h", "PAYLOAD", "p"))["state"] == b"waiting"
    assert view(b("DEBOUNCE", "GET", "x"))["payload"] == b"p"
    for words in [
        ("ONCE", "BEGIN", "token", "TTL", "1s"), ("DEBOUNCE", "CALL", "token", "1s"),
        ("THROTTLE", "TAKE", "token", "BURST", 1, "RATE", "1/1s"),
    ]:  # fmt: skip
        first = view(a(*words, "TOKEN", "t"))
        assert (first["accepted"], first["reason"]) == (1, None), words
        eventually(lambda: a(words[0], "GET", "token") is None, "it is idle")
        again = view(b(*words, "TOKEN", "t"))
        assert (again["accepted"], again["reason"]) == (1, b"repeated"), words
        assert again["generation"] == first["generation"]
    assert b("TIMER", "DEL", "x") == 1
    assert a("TIMER", "GET", "x") is None


def test_events_cross_hosts_once_and_are_not_early(clients):
    a, b = clients
    # Each answer bounds the server's clock better; a deadline is as exact as the bounds.
    for number in range(100):
        for client in clients:
            client("ONCE", "BEGIN", f"clock{number}", "TTL", "1h")
    for client in clients:
        client("PSUBSCRIBE", "timer:e*")
    c = Client(a.socket.getpeername())
    begin = time.monotonic()
    c("TIMER", "SET", "e", "300ms", "PAYLOAD", "p")
    seen = [client.events(lambda event: event["event"] == "fired") for client in (a, b)]
    assert time.monotonic() - begin >= 0.3
    # A host's events come to the other ones in the order in which it sends them.
    c("TIMER", "SET", "e", "1h")
    for client, events in zip((a, b), seen):
        events += client.events(lambda event: event["event"] == "set")
        names = [event["event"] for event in events if event["event"] != "tick"]
        assert names[-3:] == ["set", "fired", "set"], events
    c("TIMER", "DEL", "e")
    c.close()


def test_kinds_that_are_not_shared_stay_local(clients):
    a, b = clients
    assert view(a("HUD", "SHOW", "h"))["state"]
    assert b("HUD", "GET", "h") is None


def test_what_a_connection_owns_ends_with_it_on_all_hosts(fleet, clients):
    a, b = clients
    owner = fleet.connect(0)
    timer = view(sure(owner, "TIMER", "SET", "o", "1h", "OWNER", "connection"))
    assert re.fullmatch(rb"connection:\d+", timer["owner"]), timer
    listed = sure(owner, "TIMER", "LIST", "OWNER", "connection")[1]
    assert [view(one)["key"] for one in listed] == [b"o"]
    assert view(eventually(lambda: sure(b, "TIMER", "GET", "o"), "the other host has it"))["owner"] == timer["owner"]
    owner.close()
    eventually(lambda: sure(b, "TIMER", "GET", "o") is None, "it ends")
    # A scope is on one host.
    assert view(a("SCOPE", "OPEN", "app"))
    assert "shared with other hosts" in a.error("ERR", "TIMER", "SET", "o", "1h", "OWNER", "scope:app")
    a("SCOPE", "CLOSE", "app")


def test_one_connection_of_all_hosts_takes_the_action_of_a_gate(fleet, clients):
    a, b = clients
    taker = fleet.connect(0)
    sure(a, "GATE", "CHECK", "taken", "pay")
    sure(a, "GATE", "OPEN", "taken", "TTL", "1h")
    assert view(sure(taker, "GATE", "TAKE", "taken"))["accepted"] == 1
    assert view(sure(b, "GATE", "TAKE", "taken"))["accepted"] == 0
    taker.close()
    eventually(lambda: view(sure(b, "GATE", "TAKE", "taken"))["accepted"], "another connection takes it")
    assert sure(a, "GATE", "DONE", "taken") == 0
    sure(b, "GATE", "DONE", "taken")
    assert view(sure(a, "GATE", "TAKE", "taken"))["reason"] == b"no-action"


def test_commands_are_answered_while_the_server_hangs(servers, clients):
    a, b = clients
    servers.server.stop()
    try:
        for n in range(6):
            for client in (a, b):
                client.error("UNAVAILABLE UNSURE", "ONCE", "BEGIN", f"down{n}", "TTL", "1h")
        # Kinds that are not shared work.
        assert a("PING") == "PONG" and view(a("HUD", "SHOW", "g"))["state"]
    finally:
        servers.server.go_on()
    for number, client in enumerate(clients):
        sure(client, "ONCE", "BEGIN", f"up{number}", "TTL", "1h")


def test_a_restarted_daemon_knows_what_is_shared(fleet, clients):
    a, b = clients
    assert view(a("ONCE", "BEGIN", "restart", "TTL", "1h"))["accepted"] == 1
    fleet.daemons[1].stop("terminate")
    fleet.start_again(fleet.daemons[1])
    with fleet.connect(1) as client:
        assert view(client("ONCE", "BEGIN", "restart", "TTL", "1h"))["accepted"] == 0
        eventually(lambda: any(b"restart" in str(page).encode() for page in [client("ONCE", "LIST")]), "it is listed")


def ctl(daemon, *words):
    command = [binary().parent / "countdownctl", *words, "--socket", daemon.path]
    return subprocess.run(command, capture_output=True, text=True, timeout=30)


def test_info_metrics_and_countdownctl_report_the_fleet(servers, fleet, clients):
    daemon = fleet.daemons[0]
    info = daemon.info("fleet")
    assert info["fleet_name"] == "test"
    assert info["fleet_open_partitions"] == info["fleet_partitions"] == "4"
    assert clients[0]("METRICS").count(b"countdownd_fleet_") > 3
    status = ctl(daemon, "fleet", "status")
    assert status.returncode == 0 and f"{servers.nodes[0]}  connected" in status.stdout, status
    check = ctl(daemon, "fleet", "check")
    assert (check.returncode, check.stdout) == (0, "fleet test: all is well, 1 server\n"), check


def test_rules_and_dashboard_read_metrics_of_fleets_that_exist(clients):
    known = set(re.findall(r"^countdownd_fleet_\w+", clients[0]("METRICS").decode(), re.M))
    monitoring = PROJECT / "packaging/monitoring"
    rules = set(re.findall(r"countdownd_fleet_\w+", (monitoring / "alerts.yaml").read_text()))
    shown = set(re.findall(r"countdownd_fleet_\w+", (monitoring / "grafana-dashboard.json").read_text()))
    # A fleet with Sentinels has these, too: test_metrics reads them.
    known |= {f"countdownd_fleet_sentinels{end}" for end in ("", "_reachable")}
    assert rules and rules <= known
    # The dashboard shows all of them.
    assert shown == known


def test_a_server_that_may_evict_keys_is_not_used_any_more(servers, fleet, clients):
    a, _ = clients
    assert view(a("ONCE", "BEGIN", "kept", "TTL", "1h"))["accepted"] == 1

    def is_refused():
        reply = a.either(AWAY, "ONCE", "BEGIN", "evicted", "TTL", "1h")
        return isinstance(reply, Error) and "its maxmemory-policy is allkeys-lru" in reply

    assert servers.server("CONFIG", "SET", "maxmemory-policy", "allkeys-lru") == "OK"
    try:
        # The error says why, and so do the others.
        eventually(is_refused, "it is noticed")
        daemon = fleet.daemons[0]
        assert "maxmemory-policy is allkeys-lru" in daemon.log
        done = ctl(daemon, "health")
        assert done.returncode == 1 and "maxmemory-policy is allkeys-lru" in done.stdout, done
        assert b"countdownd_fleet_open_partitions 0\n" in a("METRICS")
    finally:
        assert servers.server("CONFIG", "SET", "maxmemory-policy", "noeviction") == "OK"
    for number in range(2):
        fleet.wait_until_open(fleet.daemons[number])
    sure(a, "ONCE", "BEGIN", "evicted", "TTL", "1h")


def test_a_host_that_joins_says_how_far_it_is(servers, fleet, told):
    servers.server.stop()
    try:
        daemon = Daemon(config=fleet.text, environment={**os.environ, **told.environment})
        try:
            assert b"countdownd_loading 1\n" in daemon.connect()("METRICS")
            eventually(lambda: "0 of 4 partitions are loaded" in told.status(), told.status)
            servers.server.go_on()
            fleet.wait_until_open(daemon)
            assert b"countdownd_loading 0\n" in daemon.connect()("METRICS")
        finally:
            daemon.close()
    finally:
        servers.server.go_on()
    for number in range(2):
        fleet.wait_until_open(fleet.daemons[number])


def test_local_entities_that_a_fleet_hides_are_counted(fleet, start_daemon):
    daemon = start_daemon()
    client = daemon.connect()
    for number in range(3):
        client("COUNTDOWN", "START", f"local{number}", "EVERY", "1h")
    client("TIMER", "SET", "local", "1h")
    daemon.terminate()
    daemon.config_path.write_text(fleet.text)
    fleet.start_again(daemon)
    assert re.search("They are hidden, not lost.* count=4", daemon.log)
    assert daemon.connect()("COUNTDOWN", "GET", "local1") is None
    daemon.terminate()
    daemon.config_path.write_text("")
    daemon.start_again()
    assert daemon.connect()("DBSIZE") == 4


@needs_root
def test_rules_about_keys_are_those_of_each_host(fleet, clients, start_daemon):
    host = start_daemon(config=fleet.text + 'access: {rules: {shop: {users: [1000], keys: ["shop:*"]}}}\n')
    fleet.wait_until_open(host)
    open_up(host)
    here, root, shop = clients[0], connect_as(0, host), connect_as(1000, host)
    here("COUNTDOWN", "START", "unruled:1")
    shop.error("NOPERM", "COUNTDOWN", "GET", "unruled:1")
    shop.error("NOPERM", "COUNTDOWN", "START", "unruled:2")
    here("COUNTDOWN", "START", "shop:here")
    assert view(shop("COUNTDOWN", "START", "shop:there"))["accepted"] == 1
    eventually(lambda: len(shop("COUNTDOWN", "LIST")[1]) == 2, "it has copies of both, and shows no other")
    assert set(keys(shop("COUNTDOWN", "LIST"))) == {b"shop:here", b"shop:there"}
    assert root("COUNTDOWN", "CANCEL", "shop:there") == 1
    changes = [line for line in host.log.splitlines() if "an entity of another user was changed" in line]
    assert len(changes) == 1, changes
    assert "allowed-by=access.admin command=COUNTDOWN CANCEL" in changes[0]
    assert "key=countdown:shop:there maker=1000 uid=0" in changes[0]


def test_lost_records_are_one_line_in_the_log():
    """Changes are refused afterwards, so it has a fleet of its own."""
    server = new_server()
    fleet = Fleet(server, [None], replicas=0)
    try:
        daemon = fleet.daemons[0]
        for number in range(40):
            sure(fleet.connect(0), "COUNTDOWN", "START", f"lost{number}")
        server.server("FLUSHALL")
        eventually(lambda: "the servers have lost records" in daemon.log, "it is noticed")
        fleet.wait_until_open(daemon)
        text = daemon.log.split("the servers have lost records")[-1].splitlines()[0]
        assert re.search(r"partitions=[1-4]\b", text), text
    finally:
        fleet.close()
        server.close()


@pytest.fixture
def own_fleet():
    """A server without a disk, and one daemon."""
    server = new_server()
    fleet = Fleet(server, [None], replicas=0, more="timeout: 5s")
    yield server.server, fleet
    fleet.close()
    server.close()


def remembers(daemon):
    """Whether the host has stored until when a cooldown lasts."""
    file = daemon.state / "fleet"
    return file.exists() and re.search(r"^[0-9a-f]+ [1-9]", file.read_text(), re.M)


def lose_everything(server, daemon):
    daemon.kill()
    server.kill()
    server.start()
    daemon.start_again()


def test_lost_records_are_found_though_all_have_restarted(own_fleet):
    server, fleet = own_fleet
    daemon = fleet.daemons[0]
    assert view(sure(fleet.connect(0), "COUNTDOWN", "START", "k", "EVERY", "1h", "COUNT", "2"))["accepted"] == 1
    eventually(lambda: remembers(daemon), "the host remembers the cooldown")
    lose_everything(server, daemon)
    fleet.wait_until_open(daemon)
    with daemon.connect() as client:
        reply = client.error("UNAVAILABLE", "COUNTDOWN", "START", "k", "EVERY", "1h", "COUNT", "2")
        # Other partitions have no cooldown that matters.
        assert "UNAVAILABLE the servers have lost what was sent" in reply, reply
        assert ctl(daemon, "fleet", "accept-loss").returncode == 0
        assert view(client("COUNTDOWN", "START", "k"))["accepted"] == 1
    assert f"an administrator has accepted that records are lost; limits may be exceeded partitions=1 uid={os.getuid()}" in daemon.log
    assert "error" not in ctl(daemon, "fleet", "check").stdout


def test_partitions_that_nobody_knows_are_begun_by_an_administrator(own_fleet):
    server, fleet = own_fleet
    daemon = fleet.daemons[0]
    daemon.kill()
    (daemon.state / "fleet").unlink(missing_ok=True)
    server.kill()
    server.start()
    daemon.start_again()
    with daemon.connect() as client:
        eventually(lambda: "fleet init" in client.error("UNAVAILABLE", "COUNTDOWN", "START", "k"), "nobody knows it")
        line = "commands of partitions are refused: the server has nothing of this partition"
        eventually(lambda: line in daemon.log, "the log says so")
        assert "fleet init" in ctl(daemon, "fleet", "check").stdout
        done = ctl(daemon, "fleet", "init")
        assert done.stdout == "begun: 4 partitions\n", done
        assert "nothing to do" in ctl(daemon, "fleet", "init").stdout
        assert view(client("COUNTDOWN", "START", "k"))["accepted"] == 1
    assert f"an administrator has begun a new fleet partitions=4 uid={os.getuid()}" in daemon.log


def test_what_cannot_be_stored_of_the_fleet_is_stored_later(own_fleet):
    _, fleet = own_fleet
    daemon = fleet.daemons[0]
    daemon.kill()
    file, new = daemon.state / "fleet", daemon.state / "fleet.new"
    file.unlink(missing_ok=True)
    new.mkdir()
    daemon.start_again()
    eventually(lambda: "what this host knows of its fleet cannot be stored" in daemon.log, "the log says so")
    new.rmdir()
    eventually(file.exists, "it is stored")


def test_answers_under_way_come_before_the_daemon_ends(own_fleet):
    server, fleet = own_fleet
    daemon = fleet.daemons[0]
    client = fleet.connect(0)
    sure(client, "TIMER", "GET", "none")
    server.stop()
    client.send("COUNTDOWN", "START", "k")
    eventually(lambda: daemon.info("fleet")["fleet_under_way"] == "1", "it is under way")
    daemon.terminate(wait=False)
    eventually(lambda: not daemon.accepts(), "it ends")
    server.go_on()
    reply = client.reply("UNSURE")
    assert "UNSURE" in reply if isinstance(reply, Error) else view(reply)["accepted"] == 1, reply
    assert daemon.process.wait(timeout=30) == 0


def test_countdownctl_says_what_is_wrong(servers, fleet):
    servers.server.stop()
    try:
        done = eventually(
            lambda: (lambda done: done if "problem" in done.stdout else None)(ctl(fleet.daemons[0], "fleet", "check")),
            "it is noticed")  # fmt: skip
        assert done.returncode == 1, done
    finally:
        servers.server.go_on()


def test_a_daemon_without_a_fleet_says_so(start_daemon):
    done = ctl(start_daemon(), "fleet", "status")
    assert done.returncode == 1 and "shares nothing" in done.stderr, done


def test_a_transaction_takes_no_command_of_a_shared_kind(clients):
    a, _ = clients
    assert a("MULTI") == "OK"
    assert a("HUD", "SHOW", "x") == "QUEUED"
    assert "cannot be queued by MULTI: its servers" in a.error("ERR", "COUNTDOWN", "START", "in-multi")
    a.error("EXECABORT", "EXEC").startswith("EXECABORT")
    assert a("COUNTDOWN", "GET", "in-multi") is None and a("HUD", "GET", "x") is None


def test_import_moves_hidden_entities_once_and_leaves_taken_keys(fleet, clients, start_daemon, tmp_path):
    policy = (
        "policies: {import: {every: 1h, count: 1, windows: [3/1d], validity: 1h, attempts: 2}}\n"
        "throttles: {import: {windows: [20/1d]}}\n"
    )
    host = start_daemon(config=policy)
    client = host.connect()
    client("COUNTDOWN", "START", "moves", "POLICY", "import", "META", "m")
    client("COUNTDOWN", "ATTEMPT", "moves")
    client("COUNTDOWN", "START", "taken", "EVERY", "1h")
    client("TIMER", "SET", "moves", "1h")
    client("THROTTLE", "TAKE", "moves", "BURST", 2, "RATE", "1/1h")
    for _ in range(4):
        client("THROTTLE", "TAKE", "import:all", "COST", 3)
    client("ONCE", "BEGIN", "moves", "TTL", "1h")
    client("ONCE", "DONE", "moves", "result")
    client("GATE", "OPEN", "moves", "TTL", "1h")
    client("DEBOUNCE", "CALL", "moves", "1h")
    due = view(client("TIMER", "GET", "moves"))["deadline_unix_ms"]
    generations = {kind: view(client(kind, "GET", "moves"))["generation"] for kind in ("COUNTDOWN", "TIMER", "ONCE")}
    host.terminate()

    a, b = clients
    sure(a, "COUNTDOWN", "START", "taken", "EVERY", "2h")
    theirs = view(a("COUNTDOWN", "GET", "taken"))["generation"]
    host.config_path.write_text(fleet.text + policy)
    fleet.start_again(host)
    assert "hidden 8 stored before it joined" in " ".join(ctl(host, "fleet", "status").stdout.split())

    def imported():
        done = subprocess.run(
            [binary().parent / "countdownctl", "fleet", "import", "--socket", host.path],
            capture_output=True, text=True, env={**os.environ, "TMPDIR": str(tmp_path)}, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done
        assert list(tmp_path.iterdir()) == [], "the copy is removed"
        return done.stdout

    skipped = "skipped  countdown:taken: the fleet has this key\n"
    assert imported() == skipped + "moved: 7, skipped: 1\n"
    # Another host has them as they were, with their times and their history.
    moved = view(b("COUNTDOWN", "GET", "moves"))
    assert (moved["state"], moved["meta"], moved["attempts_left"]) == (b"counting", b"m", 1)
    for kind, generation in generations.items():
        assert view(b(kind, "GET", "moves"))["generation"] == generation
    assert abs(view(b("TIMER", "GET", "moves"))["deadline_unix_ms"] - due) < 600_000
    take = ("THROTTLE", "TAKE", "moves", "BURST", 2, "RATE", "1/1h")
    assert view(sure(b, *take, "TOKEN", "t"))["accepted"] == 1
    assert view(sure(b, *take))["accepted"] == 0
    assert view(b("ONCE", "GET", "moves"))["result"] == b"result"
    # The sends of a limit move with it.
    assert "12 of 20 in 24 h" in str(a("THROTTLE", "WHY", "import:all"))
    assert view(b("GATE", "GET", "moves"))["state"] == b"open"
    assert view(b("COUNTDOWN", "GET", "taken"))["generation"] == theirs
    # Again: nothing is moved twice. A start without the fleet has what was not moved.
    assert imported() == skipped + "moved: 0, skipped: 1\n"
    host.terminate()
    host.config_path.write_text(policy)
    host.start_again()
    assert host.connect()("DBSIZE") == 1
    assert host.connect()("COUNTDOWN", "GET", "taken") is not None


def test_import_says_what_is_wrong(servers, fleet, start_daemon):
    alone = start_daemon()
    assert ctl(alone, "fleet", "import").returncode == 1
    record = alone.connect().error("ERR", "FLEET", "IMPORT", "timer", 0, "no record")
    assert record.startswith("ERR this is no record of a kind")
    host = start_daemon()
    client = host.connect()
    for number in range(600):
        client("TIMER", "SET", f"later{number}", "1h")
    host.terminate()
    host.config_path.write_text(fleet.text)
    fleet.start_again(host)
    servers.server.stop()
    try:
        done = ctl(host, "fleet", "import")
        assert done.returncode != 0 and re.search("UNAVAILABLE|UNSURE", done.stderr), done
    finally:
        servers.server.go_on()
    fleet.wait_until_open(host)

    def repeated():
        done = ctl(host, "fleet", "import")
        return done.returncode == 0 and "skipped: 0" in done.stdout

    eventually(repeated, "what the server had not confirmed is moved, too")
    assert host.info("fleet")["fleet_hidden"] == "0"
    eventually(lambda: len(host.connect()("TIMER", "LIST", "MATCH", "later*", "LIMIT", 1000)[1]) == 600, "all are there")


def test_hidden_entities_survive_the_replacement_of_a_damaged_state(fleet, start_daemon):
    host = start_daemon()
    client = host.connect()
    for number in range(20):
        client("TIMER", "SET", number, "1h")
        client("HUD", "SHOW", number, "DURABLE")
    client("THROTTLE", "TAKE", "hidden", "BURST", 2, "RATE", "1/1h")
    due = view(client("TIMER", "GET", 7))["deadline_unix_ms"]
    alone = host.config_path.read_text()
    host.change_stored("UPDATE entities SET id = id")
    rows = f"{stored.row_id('timer', 3)}, {stored.row_id('hud', 3)}"
    stored.run(state_file(host.state), f"UPDATE entities SET sum = sum + 1 WHERE id IN ({rows})", keeps_sums=True)
    host.config_path.write_text(fleet.text)
    fleet.start_again(host)
    assert KEPT in host.log
    assert host.info("fleet")["fleet_hidden"] == "20"
    # A start without the fleet has them, with their times.
    host.terminate()
    host.config_path.write_text(alone)
    host.start_again()
    client = host.connect()
    assert client("TIMER", "GET", 3) is None and client("TIMER", "GET", 4) is not None
    assert abs(view(client("TIMER", "GET", 7))["deadline_unix_ms"] - due) < 600_000
    assert view(client("THROTTLE", "GET", "hidden"))["remaining"] == 1
    assert client("DBSIZE") == 39


@pytest.fixture
def own_server():
    server = new_server()
    yield server
    server.close()


def fail_snapshots(server):
    """Makes the server's snapshots fail, so that it refuses changes with MISCONF."""
    (server.directory / "dump.rdb").mkdir()
    assert server("CONFIG", "SET", "save", "3600 1") == "OK"
    server("BGSAVE")
    eventually(lambda: server.info("persistence")["rdb_last_bgsave_status"] == "err", "a snapshot fails")


REFUSALS = {
    "memory": (
        "its memory is full", "OOM command not allowed",
        lambda server: server("CONFIG", "SET", "maxmemory", "1"),
        lambda server: server("CONFIG", "SET", "maxmemory", "256mb"),
    ),
    "disk": (
        "it cannot store its data on its disk", "MISCONF", fail_snapshots,
        lambda server: server("CONFIG", "SET", "save", ""),
    ),
    "rights": (
        "its user for this daemon may not do that", "The user executing the script can't run",
        lambda server: server("ACL", "SETUSER", "default", "-@write"),
        lambda server: server("ACL", "SETUSER", "default", "+@all"),
    ),
}  # fmt: skip


@needs_root
@pytest.mark.parametrize("cause", REFUSALS)
def test_a_server_that_refuses_changes_is_reported_with_the_cause(own_server, told, cause):
    text, words, begin, end = REFUSALS[cause]
    environment = {**os.environ, **told.environment, "WATCHDOG_USEC": "20000000"}
    fleet = Fleet(own_server, [None], replicas=0, environments=[environment], config="access: {admin: {users: [0]}}\n")
    try:
        daemon = fleet.daemons[0]
        open_up(daemon)
        begin(own_server.server)
        # Nobody uses it.
        eventually(lambda: text in ctl(daemon, "health").stdout or words in ctl(daemon, "health").stdout, "health")
        assert ctl(daemon, "health").returncode == 1
        assert words in ctl(daemon, "fleet", "status").stdout
        check = ctl(daemon, "fleet", "check")
        assert check.returncode == 1 and words in check.stdout and "To do:" in check.stdout, check
        eventually(lambda: text in told.status(), told.status)
        assert words not in told.status()
        client = fleet.connect(0)
        assert f'countdownd_fleet_refused_partitions{{cause="{cause}"}} 4\n' in client("METRICS").decode()
        eventually(lambda: int(daemon.info("fleet")["fleet_heartbeat_age_ms"]) > 1_000, "the heartbeat ages")
        # Clients get the kind, at once, and nothing of the server's words.
        with connect_as(1000, daemon) as shop:
            for number in range(30):
                reply = shop.error("UNAVAILABLE", "COUNTDOWN", "START", f"full{number}")
                assert text in reply and words not in reply, reply
            info = shop("INFO", "fleet").decode()
            assert text in info and words not in info, info
        lines = [line for line in daemon.log.splitlines() if "refuses changes" in line]
        assert len(lines) == 1 and f"cause={cause}" in lines[0] and words in lines[0], lines
        end(own_server.server)
        eventually(lambda: ctl(daemon, "fleet", "check").returncode == 0, lambda: ctl(daemon, "fleet", "check").stdout)
        assert "server 127.0.0.1" not in ctl(daemon, "health").stdout
        assert daemon.log.count("carries out changes again") == 1
        eventually(lambda: text not in told.status(), told.status)
        assert view(sure(client, "COUNTDOWN", "START", "again"))["accepted"] == 1
    finally:
        fleet.close()


def test_streams_that_cannot_be_read_are_reported(own_server):
    fleet = Fleet(own_server, [None, None], replicas=0)
    try:
        daemon = fleet.daemons[0]
        a, b = fleet.connect(0), fleet.connect(1)
        assert own_server.server("ACL", "SETUSER", "default", "-xread") == "OK"
        eventually(lambda: "cannot be read" in ctl(daemon, "health").stdout, "health")
        assert ctl(daemon, "health").returncode == 1
        assert "xread" in ctl(daemon, "fleet", "check").stdout
        assert b"countdownd_fleet_unread_partitions 4\n" in a("METRICS")
        # What is changed meanwhile succeeds, and is no sign that streams are read.
        assert view(sure(b, "TIMER", "SET", "t", "1h"))["state"] == b"running"
        assert b"countdownd_fleet_unread_partitions 4\n" in a("METRICS")
        lines = [line for line in daemon.log.splitlines() if "cannot be read" in line]
        assert len(lines) == 1 and "xread" in lines[0], lines
        a("SUBSCRIBE", "timer:u")
        sure(b, "TIMER", "SET", "u", "1h")
        assert own_server.server("ACL", "SETUSER", "default", "+@all") == "OK"
        assert "set" in [event["event"] for event in a.events(lambda event: event["event"] == "set")]
        eventually(lambda: ctl(daemon, "fleet", "check").returncode == 0, lambda: ctl(daemon, "fleet", "check").stdout)
        assert "server 127.0.0.1" not in ctl(daemon, "health").stdout
        assert daemon.log.count("are read again") == 1
    finally:
        fleet.close()


def test_a_refused_connection_is_the_answer_at_once(own_server):
    fleet = Fleet(own_server, [None], replicas=0)
    try:
        daemon = fleet.daemons[0]
        own_server.server.kill()
        eventually(lambda: "Connection refused" in daemon.info("fleet")["fleet_server0"], "it is noticed")
        client = fleet.connect(0)
        for number in range(48):
            assert "Connection refused" in client.error("UNAVAILABLE", "COUNTDOWN", "START", f"k{number}")
        own_server.server.start()
        sure(client, "TIMER", "SET", "t", "1h")
    finally:
        fleet.close()
