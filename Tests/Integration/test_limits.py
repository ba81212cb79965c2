"""Named limits over restarts, kill -9, reloads and wrong configurations; and the attack that they end."""

import os
import subprocess
import sys

import pytest

from countdownd import PROJECT, binary, check, ctl_binary, eventually, view

RULES = """
throttles:
  ip: {burst: 3, rate: 1/1h}
  range: {without-last: 2, windows: [20/1h, 30/1d]}
  all: {windows: [100/1d], global: true}
policies:
  phone: {ladder: [60s], validity: 5m, limits: [ip, range, all]}
  other: {ladder: [60s], limits: [all]}
"""


def start(client, key, address="a", policy="phone"):
    limit = ["LIMIT", f"ip:{address}"] if policy == "phone" else []
    return view(client("COUNTDOWN", "START", key, "POLICY", policy, *limit))


def figures(client):
    """Returns how much is left of each limit."""
    _, views = client("THROTTLE", "LIST", "LIMIT", "1000")
    return {view(each)["key"]: view(each)["remaining"] for each in views}


@pytest.mark.daemon(config=RULES)
def test_limits_survive_kill_9_with_each_of_their_sends(daemon):
    client = daemon.connect()
    # Enough for several pages of sends.
    sent = [start(client, f"45{key:02}", address=key // 3) for key in range(18)]
    assert all(each["accepted"] for each in sent)
    client("COUNTDOWN", "REFUND", "4507", "GENERATION", sent[7]["generation"])
    before = figures(client)
    assert before[b"range:45"] == 3 and before[b"all:"] == 83 and before[b"ip:2"] == 1
    for how in ("kill", "terminate", "kill"):
        daemon.restart(how)
        client = daemon.connect()
        assert figures(client) == before
    # A send of an earlier life can be given back, and what is left is exact.
    client("COUNTDOWN", "REFUND", "4517", "GENERATION", sent[17]["generation"])
    more = [start(client, f"45{key}", address=key) for key in range(50, 55)]
    assert [each["accepted"] for each in more] == [1, 1, 1, 1, 0]
    assert (more[4]["reason"], more[4]["limit"]) == (b"limit", b"range:45")
    daemon.restart("kill")
    client = daemon.connect()
    assert figures(client)[b"range:45"] == 0
    daemon.terminate()
    assert check(daemon.state).returncode == 0


ATTEMPTS = """
throttles: {ip: {windows: [2/1h]}}
policies: {login: {ladder: [60s], validity: 5m, attempts: 3, attempt-limits: [ip]}}
"""


@pytest.mark.daemon(config=ATTEMPTS)
def test_a_source_that_guesses_has_no_room_and_the_owner_of_the_key_has(daemon):
    client = daemon.connect()

    def attempt(address):
        return view(client("COUNTDOWN", "ATTEMPT", "k", "LIMIT", f"ip:{address}"))

    client("COUNTDOWN", "START", "k", "POLICY", "login")
    assert "LIMIT ip:KEY" in client.error("ERR", "COUNTDOWN", "ATTEMPT", "k")
    assert [attempt("a")["accepted"] for _ in range(3)] == [1, 1, 0]
    daemon.restart("kill")
    client = daemon.connect()
    refused = attempt("a")
    assert (refused["reason"], refused["limit"], refused["attempts_left"]) == (b"limit", b"ip:a", 1)
    assert 0 < refused["retry_after_ms"] <= 3_600_000
    assert attempt("b")["attempts_left"] == 0
    done = subprocess.run(
        [ctl_binary(), "attempt", "k", "--limit", "ip:a", "--socket", daemon.path],
        capture_output=True, text=True)
    assert done.returncode == 1 and "ip:a has no room: try again in " in done.stdout + done.stderr


@pytest.mark.daemon(config=RULES)
def test_what_a_take_has_taken_is_given_back_once_over_kill_9(daemon):
    client = daemon.connect()
    taken = view(client("THROTTLE", "TAKE", "range:45", "all:", "COST", "5"))
    ids = {view(each)["key"]: view(each)["id"] for each in taken["views"]}
    client("THROTTLE", "TAKE", "range:45")
    for units, reason, left in [(2, None, 16), (2, b"repeated", 16), (4, None, 18), (9, None, 19), (9, b"repeated", 19)]:
        refunded = view(client("THROTTLE", "REFUND", "range:45", units, "ID", ids[b"range:45"]))
        assert (refunded["accepted"], refunded["reason"], refunded["remaining"]) == (1, reason, left)
        daemon.restart("kill")
        client = daemon.connect()
        assert figures(client) == {b"range:45": left, b"all:": 95}
    assert "has no windows" in client.error("ERR", "THROTTLE", "REFUND", "ip:a", "1", "ID", "7")
    daemon.terminate()
    assert check(daemon.state).returncode == 0


@pytest.mark.daemon(config=RULES, virtual_time=True)
def test_forgiving_gives_back_what_the_policy_has_forgotten(daemon):
    client = daemon.connect()
    for key in ("4511", "4512", "4511"):
        assert start(client, key)["accepted"]
        client("CLOCK", "ADVANCE", "40m")
    forgotten = view(client("COUNTDOWN", "GET", "4511"))
    assert (forgotten["state"], forgotten["sends"]) == (b"idle", 0)
    assert figures(client) == {b"range:45": 19, b"all:": 97, b"ip:a": 2}
    client("COUNTDOWN", "FORGIVE", "4511", "LIMITS")
    assert figures(client) == {b"range:45": 20, b"all:": 99}
    assert client("COUNTDOWN", "GET", "4511") is None
    client("CLOCK", "ADVANCE", "1d")
    assert client("DBSIZE") == 0


@pytest.mark.daemon(config=RULES)
def test_a_reload_changes_the_rules_and_a_wrong_file_leaves_the_old_ones_in_force(daemon):
    client = daemon.connect()
    assert start(client, "4501")["accepted"]
    file = daemon.config_path
    file.write_text(RULES.replace("limits: [all]", "limits: [al]"))
    answer = client.error("ERR", "CONFIG", "RELOAD")
    assert "no limit al in throttles; did you mean all?" in answer
    assert start(client, "4502")["accepted"]
    file.write_text(RULES.replace("burst: 3", "burst: 2"))
    client("CONFIG", "RELOAD")
    # What was used stays used.
    refused = start(client, "4503")
    assert (refused["accepted"], refused["limit"]) == (0, b"ip:a")


@pytest.mark.parametrize(
    "rules, problem",
    [
        ("throttles: {a: {windows: [10001/1d]}}", "1 to 10000 sends; for more, use rate and burst"),
        ("throttles: {a: {burst: 3}}", "burst needs rate"),
        ("throttles: {a: {rate: 3/1h}}", "rate needs burst"),
        ("throttles: {a: {global: true}}", "limits nothing; it needs rate and burst, or windows"),
        ("throttles: {a: {windows: [1/1h], global: true, without-last: 4}}", "drop one of them"),
        ("throttles: {a: {windows: [1/1h], passed: {least: 20}}}", "1% to 100%"),
        ("throttles: {a: {windows: [1/1h], passed: {least: 20%}}}", "needs of, in, block"),
        ("throttles: {a: {window: [1/1h]}}", "did you mean windows?"),
        ("policies: {p: {limits: [a]}}", "no limit a in throttles; throttles is empty"),
        ("throttles: {a: {windows: [1/1h]}}\npolicies: {p: {limits: [a, a]}}", "a is named twice"),
        (
            "throttles: {a: {windows: [1/1h], passed: {least: 1%, of: 1, in: 1h, block: 1h}}}\n"
            "policies: {p: {limits: [a]}}",
            "set policies.p.validity",
        ),
        ("policies: {p: {validity: 5m, lockout: [5m]}}", "lockout needs attempts"),
        ("policies: {p: {guesses: 5/1d}}", "guesses needs validity"),
        (
            "throttles: {a: {windows: [1/1h]}}\npolicies: {p: {attempt-limits: [a]}}",
            "attempt-limits needs validity",
        ),
        ("policies: {p: {validity: 5m, attempt-limits: [a]}}", "no limit a in throttles; throttles is"),
        (
            "throttles: {a: {windows: [1/1h], passed: {least: 1%, of: 1, in: 1h, block: 1h}}}\n"
            "policies: {p: {validity: 5m, attempt-limits: [a]}}",
            "name a limit without passed",
        ),
        (
            "fleet: {engine: redis, nodes: [\"a:1\"]}\nthrottles: {a: {windows: [5/1h, 1001/1d]}}",
            "a fleet has at most 1000 sends of a limit on record, this needs 1001; use rate",
        ),
        (
            "fleet: {engine: redis, nodes: [\"a:1\"], kinds: [countdown]}\n"
            "throttles: {a: {rate: 1/1h, burst: 1}}\npolicies: {p: {limits: [a]}}",
            "list countdown and throttle in fleet.kinds, or neither",
        ),
    ],
)  # fmt: skip
def test_a_configuration_that_makes_no_sense_is_refused_by_name(tmp_path, rules, problem):
    file = tmp_path / "countdownd.yaml"
    file.write_text(rules)
    done = subprocess.run(
        [ctl_binary(), "policy", "check", file], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and problem in done.stdout + done.stderr


@pytest.mark.parametrize("rules", ["--protected", "--unprotected"])
def test_an_attack_ends_after_a_few_codes_and_honest_users_lose_none(rules):
    # A fifth of the attack that the page plays.
    words = [PROJECT / "Examples/attack/attack.py", "--numbers", "2000", "--honest", "200", rules]
    done = subprocess.run(
        [sys.executable, *map(str, words)], capture_output=True, text=True,
        env=os.environ | {"COUNTDOWND": str(binary())}, timeout=600)
    attacker, honest = (int(line.split()[0]) for line in done.stdout.splitlines())
    assert honest == 200
    assert attacker < 100 if rules == "--protected" else attacker == 2_000


@pytest.mark.daemon(config=RULES)
def test_figures_count_what_limits_refuse(daemon):
    client = daemon.connect()
    for key in range(4):
        start(client, f"45{key:02}")
    assert daemon.info("stats")["starts_limited"] == "1"
    eventually(
        lambda: b"countdownd_limited_starts_total 1" in client("METRICS"), "METRICS has it as well")


@pytest.mark.daemon(config=RULES)
def test_countdownctl_takes_limits_and_forgives(daemon):
    def says(status, part, *words):
        done = subprocess.run(
            [ctl_binary(), *words, "--socket", daemon.path], capture_output=True, text=True, timeout=60)
        assert (done.returncode, part in done.stdout + done.stderr) == (status, True), done

    policy = ["--policy", "phone", "--limit"]
    says(0, "accepted  4501", "start", "4501", *policy, "ip:a")
    says(4, "LIMIT needs a POLICY", "start", "4502", "--limit", "ip:a")
    says(0, "ip:a 1 of 3 left, all: 98 of 100 left", "throttle", "take", "ip:a", "all:")
    says(1, "ip:a has no room: try again in", "throttle", "take", "ip:a", "all:", "--cost", "2")
    says(4, "leave them out", "throttle", "take", "ip:a", "all:", "--burst", "1", "--rate", "1/1s")
    says(0, "forgiven  4501", "forgive", "4501", "--limits")
    says(0, "accepted  4501", "resend", "4501", "--limit", "ip:b")
    says(0, "", "throttle", "unblock", "range:45")
    says(1, "is unused", "throttle", "unblock", "range:99")
    assert figures(daemon.connect())[b"ip:b"] == 2
