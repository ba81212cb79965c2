"""The journal of decisions, and its replay with other rules."""

import json
import os
import random
import re
import subprocess

import pytest

from countdownd import ctl_binary, eventually, view
from fault_injection import Faults
from test_store_trouble import SmallDisk

RULES = """
journal: {size: 8MiB}
throttles:
  ip: {burst: 3, rate: 6/1h}
  range:
    without-last: 2
    windows: [20/1h]
    passed: {least: 20%, of: 10, in: 1h, block: 30m}
  all: {windows: [60/1h], global: true}
policies:
  phone:
    ladder: [30s, 60s]
    windows: [3/1h]
    validity: 5m
    attempts: 2
    lockout: [10m]
    limits: [ip, range, all]
"""


def ctl(daemon, *words, status=0):
    done = subprocess.run(
        [ctl_binary(), *map(str, words), "--socket", daemon.path],
        capture_output=True, text=True, timeout=120)  # fmt: skip
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


def entries(daemon, *words):
    return [json.loads(line) for line in ctl(daemon, "journal", "list", *words, "--json").splitlines()]


def decisions(daemon, *words):
    return [entry for entry in entries(daemon, *words) if entry["what"] == "decision"]


def replay(daemon, rules, *words):
    return json.loads(ctl(daemon, "policy", "replay", rules, "--json", *words))


def written(daemon, count):
    eventually(lambda: len(decisions(daemon)) >= count, f"{count} decisions are written")


def start(client, key, ip):
    return view(client("COUNTDOWN", "START", key, "POLICY", "phone", "LIMIT", f"ip:{ip}"))


def happen(client, count, seed=1):
    """Sends commands of all kinds, and lets virtual time pass. Returns the number of decisions."""
    chance = random.Random(seed)
    sent = {}
    for _ in range(count):
        key = f"45{chance.randrange(300):03}"
        what = chance.randrange(12)
        if what < 6 or key not in sent:
            answer = start(client, key, chance.randrange(40))
            if answer["accepted"]:
                sent[key] = answer["generation"]
        elif what < 8:
            client.either("NOTFOUND", "COUNTDOWN", "ATTEMPT", key)
        elif what < 9:
            client.either("NOTFOUND", "COUNTDOWN", "PASS", key)
        elif what < 10:
            client.either("NOTFOUND", "COUNTDOWN", "REFUND", key, "GENERATION", sent[key])
        else:
            client.either("NOTFOUND ERR", "COUNTDOWN", "PAUSE" if what < 11 else "RESUME", key)
        client("CLOCK", "ADVANCE", f"{chance.randrange(20_000)}ms")
        if chance.randrange(40) == 0:
            client("CLOCK", "SUSPEND", f"{chance.randrange(1_000)}s")
    return count


@pytest.mark.daemon(virtual_time=True, config=RULES)
def test_each_decision_is_kept_with_its_answer_and_survives_a_restart(daemon):
    client = daemon.connect()
    generation = start(client, "4501", "a")["generation"]
    assert not start(client, "4501", "a")["accepted"]
    client("COUNTDOWN", "START", "4501", "POLICY", "phone", "LIMIT", "ip:b", "META", "secret", "BRIEF")
    client("COUNTDOWN", "PASS", "4501")
    client("THROTTLE", "TAKE", "ip:a", "all:", "COST", 3)
    client("ONCE", "BEGIN", "o", "TTL", "1h")
    client("ONCE", "DONE", "o", "secret")
    client("COUNTDOWN", "GET", "4501")
    written(daemon, 7)
    found = decisions(daemon)
    assert [entry["command"][1] for entry in found] == [
        "START", "START", "START", "PASS", "TAKE", "BEGIN", "DONE"]  # fmt: skip
    assert [entry["accepted"] for entry in found] == [True, False, False, True, False, True, True]
    first, second, brief, _, take, *_ = found
    assert first["limits"] == ["ip:a", "range:45", "all:"] and first["generation"] == generation
    assert second["reason"] == "cooldown" and second["retry_after_ms"] == 30_000
    assert brief["reason"] == "cooldown" and brief["retry_after_ms"] == 30_000
    assert take["limit"] == "ip:a" and take["uid"] == os.getuid()
    assert "secret" not in ctl(daemon, "journal", "list")
    assert "refused (cooldown) for 30 s" in ctl(daemon, "journal", "list", "--match", "4501")
    client("CLOCK", "RESTART")
    client = daemon.connect()
    client("COUNTDOWN", "CANCEL", "4501")
    written(daemon, 8)
    assert [entry["what"] for entry in entries(daemon)].count("closed") == 1
    # It goes on with the state that it had.
    assert [e["continues"] for e in entries(daemon) if e["what"] == "segment"] == [False, True]
    persistence = daemon.info("persistence")
    assert int(persistence["journal_entries"]) >= 8 and persistence["journal_last_error"] == ""
    assert b"countdownd_journal_fails 0" in client("METRICS")


@pytest.mark.daemon(virtual_time=True, config=RULES)
def test_the_same_rules_differ_in_nothing_and_stricter_ones_say_what_they_cost(daemon, tmp_path):
    client = daemon.connect()
    count = happen(client, 400)
    client("CLOCK", "RESTART", "10m")
    client = daemon.connect()
    count += happen(client, 200, seed=2)
    client("CLOCK", "REBOOT", "10m")
    client = daemon.connect()
    count += happen(client, 200, seed=3)
    written(daemon, count)
    same = replay(daemon, daemon.config_path)
    assert same["differing"] == 0 and same["then"] == same["now"] and same["decisions"] == count
    assert same["undecided"] == same["not_comparable"] == {} and same["then"]["sends"] > 50 and same["money_saved"] is None
    strict = tmp_path / "strict.yaml"
    strict.write_text(RULES.replace("20/1h", "4/1h").replace("60/1h", "8/1h"))
    file = tmp_path / "export.journal"
    assert "entries" in ctl(daemon, "journal", "export", file)
    problem = ctl(daemon, "journal", "export", tmp_path / "none" / "export.journal", status=1)
    assert "No such file or directory" in problem
    report = replay(daemon, strict, "--journal", file, "--price", "0.1")
    assert report["now"]["sends"] < report["then"]["sends"] == same["then"]["sends"]
    saved = report["then"]["sends"] - report["now"]["sends"]
    assert abs(report["money_saved"] - saved * 0.1) < 1e-6
    assert report["now"]["refused"]["limit"] > report["then"]["refused"].get("limit", 0)
    assert report["customers_lost"] > 0 and report["affected"][0]["sends"] >= 1
    table = ctl(daemon, "policy", "replay", strict, "--journal", file, "--since", "1h")
    assert "with these rules" in table and "customers lost:" in table
    strict.write_text("policies: {phone: {ladder: [1s], limits: [no]}}")
    assert "no limit no" in ctl(daemon, "policy", "replay", strict, status=1)
    # What is damaged is left out, with a message.
    file.write_bytes(file.read_bytes()[:-3])
    assert "is damaged at byte" in ctl(daemon, "policy", "replay", strict, "--journal", file, status=1) + (
        ctl(daemon, "journal", "list", file, status=65))  # fmt: skip


@pytest.mark.daemon(virtual_time=True)
def test_hashed_keys_name_nobody_and_replay_the_same(daemon, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("short\n")
    rules = RULES.replace("8MiB", f"8MiB, keys: hmac, secret-file: {secret}")
    daemon.config_path.write_text(rules)
    client = daemon.connect()
    assert "needs 16 to 4096 bytes" in client.error("ERR", "CONFIG", "RELOAD")
    client.error("ERR", "JOURNAL", "READ", 0, 100)
    secret.write_text("0123456789abcdef\n")
    client("CONFIG", "RELOAD")
    count = happen(client, 150)
    written(daemon, count)
    shown = ctl(daemon, "journal", "list")
    assert "START" in shown and "LIMIT ip:" in shown and not re.search(r" 45\d{3}\b", shown)
    # A key may be at any place of a command, also that of a policy or a number.
    phone = "+4915551234567"
    for words in [
        ["COUNTDOWN", "START", "a", "POLICY", phone], ["COUNTDOWN", "START", "a", "COUNT", phone],
        ["COUNTDOWN", "RESEND", "a", "CHANNEL", phone], ["COUNTDOWN", "RETIME", "a", phone],
        ["THROTTLE", "TAKE", "a", "RATE", phone], ["ONCE", "BEGIN", "a", "TTL", phone],
    ]:  # fmt: skip
        client.error("ERR NOTFOUND", *words)
        count += 1
    written(daemon, count)
    shown = ctl(daemon, "journal", "list")
    assert phone not in shown and "POLICY phone" in shown
    assert replay(daemon, daemon.config_path)["differing"] == 0
    other = tmp_path / "other.yaml"
    other.write_text(RULES.replace("without-last: 2", "without-last: 3"))
    assert "the limit 'range' takes its keys" in ctl(daemon, "policy", "replay", other, status=1)
    # A journal that is off keeps its files, and answers nothing.
    daemon.config_path.write_text("")
    client("CONFIG", "RELOAD")
    client.error("ERR", "JOURNAL", "READ", 0, 100)
    assert daemon.info("persistence")["journal"] == "0"


@pytest.mark.daemon(config=RULES)
def test_a_long_journal_is_read_entry_by_entry(daemon, tmp_path):
    """Not held in memory: 24 MiB of entries take less than half of that."""
    client = daemon.connect()
    for number in range(100):
        client("COUNTDOWN", "START", f"{number:0400}")
    written(daemon, 100)
    short, long = tmp_path / "short", tmp_path / "long"
    ctl(daemon, "journal", "export", short)
    entries = short.read_bytes()
    with long.open("wb") as file:
        for _ in range((24 << 20) // len(entries)):
            file.write(entries)

    def peak(file):
        """Returns the most memory that `journal list` had, in bytes."""
        process = subprocess.Popen(
            [ctl_binary(), "journal", "list", file, "--since", "1h", "--match", "none"])
        _, process.returncode, usage = os.wait4(process.pid, 0)
        assert process.returncode == 0
        return usage.ru_maxrss << 10

    assert peak(long) - peak(short) < 12 << 20


@pytest.mark.daemon(virtual_time=True, config=RULES.replace("8MiB", "1MiB, entries: 1000"))
def test_the_oldest_makes_room(daemon):
    client = daemon.connect()
    count = happen(client, 1_200)
    written(daemon, 200)
    eventually(lambda: decisions(daemon)[0]["number"] > 200, "the oldest are gone")
    found = entries(daemon)
    assert len(list((daemon.state / "journal").iterdir())) <= 9
    assert int(daemon.info("persistence")["journal_entries"]) <= 1_125
    # What is left has all decisions up to the last, and replays the same.
    numbers = [entry["number"] for entry in found]
    assert numbers == sorted(numbers)
    report = replay(daemon, daemon.config_path)
    assert report["differing"] == 0 and 150 < report["decisions"] < count


@pytest.mark.parametrize(
    "rules, problem",
    [
        ("journal: {size: 1KiB}", "0, or bytes, or an integer with KiB, MiB or GiB, from 1MiB to"),
        ("journal: {keys: hmac}", "name a file with a secret"),
        ("journal: {size: 1MiB}\nfleet: {engine: redis, nodes: [\"a:1\"]}", "of one daemon"),
    ],
)  # fmt: skip
def test_a_journal_that_makes_no_sense_is_refused(tmp_path, rules, problem):
    file = tmp_path / "countdownd.yaml"
    file.write_text(rules)
    done = subprocess.run(
        [ctl_binary(), "policy", "check", file], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and problem in done.stdout + done.stderr


def lost(daemon):
    return int(daemon.info("persistence")["journal_lost_entries"])


def told_lost(daemon):
    """Returns how many entries are lost, by `journal list`."""
    found = entries(daemon)
    return sum(entry["lost"] for entry in found if entry["what"] in ("lost", "segment"))


def check_lost(daemon, tmp_path, count):
    """All tools have at least so many lost entries."""
    client = daemon.connect()
    assert lost(daemon) >= count
    total = re.search(rb"countdownd_journal_lost_entries_total (\d+)", client("METRICS"))
    assert int(total[1]) >= count
    assert told_lost(daemon) >= count
    assert replay(daemon, daemon.config_path)["missing_entries"] >= count
    text = ctl(daemon, "journal", "export", tmp_path / "lossy.journal")
    assert int(re.search(r"(\d+) others are lost", text)[1]) >= count


LIMITS = "journal: {size: 8MiB}\nthrottles:\n" + "".join(
    f"  l{n}: {{burst: 1000, rate: 1000/1s}}\n" for n in range(8))


def test_a_slow_disk_loses_what_does_not_fit_in_memory(start_daemon, tmp_path):
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    faults = Faults(tmp_path, state)
    daemon = start_daemon(
        state=state, config=LIMITS,
        environment=faults.environment(action="stall", lasting=True, file="0*", log=False))  # fmt: skip
    client = daemon.connect()
    client("COUNTDOWN", "START", "a")
    written(daemon, 1)
    faults.damage()
    number = 0

    def overflows():
        """Each decision is about 8 limits with long keys, so about 20 KiB."""
        nonlocal number
        for _ in range(100):
            number += 1
            keys = [f"l{n}:{number:0480}" for n in range(8)]
            client("THROTTLE", "TAKE", *keys)
        return lost(daemon) > 100

    try:
        while not overflows():
            assert number < 4_000, "what waits is bounded"
        assert "the disk is slow" in daemon.info("persistence")["journal_last_error"]
        # Nothing can be written, so it shows at the end.
        check_lost(daemon, tmp_path, 100)
    finally:
        faults.mend()

    def is_on_record():
        client("COUNTDOWN", "START", "b", "EVERY", "1ms", "COUNT", "1")
        return any(e["what"] == "segment" and e["lost"] > 0 for e in entries(daemon))

    eventually(is_on_record, "it is written again, and the gap is on record")
    assert daemon.info("persistence")["journal_last_error"] == ""
    check_lost(daemon, tmp_path, 100)
    eventually(lambda: told_lost(daemon) == lost(daemon), "each lost entry is on record once")


def test_the_journal_leaves_the_last_space_to_the_state(start_daemon, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a small file system")
    disk = SmallDisk(tmp_path / "small")
    try:
        daemon = start_daemon(
            state=disk.directory / "state", segment_size="64KiB",
            config=LIMITS.replace("8MiB", "64MiB"))  # fmt: skip
        client = daemon.connect()
        number = 0

        def is_full():
            nonlocal number
            for _ in range(50):
                number += 1
                keys = [f"l{n}:{number % 100:0480}" for n in range(8)]
                client("THROTTLE", "TAKE", *keys)
            return lost(daemon) > 0

        eventually(is_full, "the journal has taken its part of the disk")
        assert "no space left" in daemon.info("persistence")["journal_last_error"]
        free = os.statvfs(disk.directory)
        assert free.f_bavail * free.f_frsize > 1 << 20
        assert daemon.info("persistence")["read_only"] == "0"
        for key in range(100):
            client("TIMER", "SET", f"{key}", "1h")
        check_lost(daemon, tmp_path, 1)
        daemon.terminate()
    finally:
        disk.close()


@pytest.mark.daemon(virtual_time=True, config=RULES.replace("8MiB", "1MiB, entries: 2000"))
def test_a_missing_segment_is_counted_and_the_others_are_read(daemon, tmp_path):
    client = daemon.connect()
    written(daemon, happen(client, 400))
    files = sorted((daemon.state / "journal").iterdir())
    before = entries(daemon)
    segments = [entry["number"] for entry in before if entry["what"] == "segment"]
    assert len(segments) >= 4 and len(files) >= 4
    files[1].unlink()
    found = entries(daemon)
    gap = segments[2] - segments[1]
    assert {"what": "lost", "lost": gap} in found
    numbers = [entry["number"] for entry in found if "number" in entry]
    missing = range(segments[1], segments[2])
    assert numbers == [e["number"] for e in before if e["number"] not in missing]
    # A replay begins again after it.
    report = replay(daemon, daemon.config_path)
    assert report["missing_entries"] == gap and report["differing"] == 0
    assert lost(daemon) == gap
    assert f"{gap} others are lost" in ctl(daemon, "journal", "export", tmp_path / "export")
    assert f"{gap} entries are lost" in ctl(daemon, "journal", "list", tmp_path / "export")
    # The one that is written to.
    newest = max((daemon.state / "journal").iterdir())
    newest.unlink()
    last = max(numbers)
    assert entries(daemon)[-1] == {"what": "lost", "lost": last - max(segments) + 1}
    happen(client, 50, seed=9)
    eventually(lambda: decisions(daemon)[-1]["number"] > last, "it goes on in another file")
    assert replay(daemon, daemon.config_path)["differing"] == 0
    # Also at the next start.
    client("CLOCK", "RESTART")
    daemon.connect()
    assert {"what": "lost", "lost": gap} in entries(daemon)
    assert replay(daemon, daemon.config_path)["missing_entries"] > gap


def test_a_full_disk_loses_entries_and_no_decision(start_daemon, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a small file system")
    disk = SmallDisk(tmp_path / "small")
    try:
        # The state is in memory; only the journal is on the disk.
        daemon = start_daemon(
            state=disk.directory / "state", config=RULES, arguments=["--durability", "none"])
        client = daemon.connect()
        client("COUNTDOWN", "START", "a")
        written(daemon, 1)
        disk.fill()

        def fails():
            assert client("COUNTDOWN", "START", "b", "EVERY", "1ms", "COUNT", "1")[1]
            return "decisions are made but not kept" in daemon.log

        eventually(fails, "the journal cannot be written, and the log says so")
        assert "no space left" in daemon.info("persistence")["journal_last_error"]
        assert b"countdownd_journal_fails 1" in client("METRICS")
        # Nothing can be written, so the tools count what comes after the newest entry.
        eventually(lambda: fails() and lost(daemon) > 10, "more are lost")
        check_lost(daemon, tmp_path, 10)
        disk.empty()

        def works():
            client("COUNTDOWN", "START", "c", "EVERY", "1ms", "COUNT", "1")
            return "the journal of decisions is written again" in daemon.log

        eventually(works, "it is written again, and the log says so")
        eventually(
            lambda: works() and any(e["what"] == "segment" and e["lost"] > 0 for e in entries(daemon)),
            "the gap is on record")
        assert int(daemon.info("persistence")["journal_lost_entries"]) > 0
        daemon.terminate()
    finally:
        disk.close()
