"""Events never fire before their deadline: real timers, checked against the client's clock."""

import json
import time

from countdownd import PATIENCE, random_by_seed, request

COUNT = 10_000
LONGEST_MS = 5_000


def test_none_of_10000_random_timers_is_early(daemon):
    generator = random_by_seed()
    setter, watcher = daemon.connect(), daemon.connect()
    watcher.send("PSUBSCRIBE", "timer:*")
    watcher.push()
    asked, delays = {}, {}
    heard = {}

    def listen():
        while watcher.has_more(0):
            channel, payload = watcher.push()[-2:]
            arrived, wall = time.clock_gettime_ns(time.CLOCK_BOOTTIME), time.time_ns()
            event = json.loads(payload)
            if event["event"] == "fired":
                assert channel not in heard, "it fired twice"
                heard[channel] = arrived
                number = int(event["payload"])
                assert arrived - asked[number] >= delays[number] * 1_000_000, "early"
                assert wall >= event["due_unix_ms"] * 1_000_000, "early by what it says itself"
                assert event["late_us"] >= 0

    for start in range(0, COUNT, 100):
        commands = []
        for number in range(start, start + 100):
            delays[number] = generator.randint(0, LONGEST_MS)
            words = ["TIMER", "SET", number, delays[number], "PAYLOAD", number]
            words += ["CLOCK", "wall"] if number % 10 == 0 else []
            commands.append(request(*words))
            asked[number] = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        setter.send_bytes(b"".join(commands))
        for _ in range(100):
            setter.reply()
        listen()
    while len(heard) < COUNT:
        assert watcher.has_more(PATIENCE), f"only {len(heard)} have fired"
        listen()
    lateness = daemon.info("lateness")
    assert int(lateness["expired"]) == COUNT


def test_no_tick_is_early(daemon):
    """Starts 100 countdowns of 3 steps and compares each tick with the client's clock."""
    generator = random_by_seed()
    setter, watcher = daemon.connect(), daemon.connect()
    watcher.send("PSUBSCRIBE", "countdown:*")
    watcher.push()
    asked, every = {}, {}
    for number in range(100):
        key = str(number)
        every[key] = generator.randint(1, 300)
        asked[key] = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        setter("COUNTDOWN", "START", key, "COUNT", 3, "EVERY", every[key])
    ready = 0
    while ready < 100:
        _, event = watcher.event()
        arrived = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        if event["event"] in ("tick", "ready"):
            steps = 3 - event["remaining"]
            assert arrived - asked[event["key"]] >= steps * every[event["key"]] * 1_000_000
        ready += event["event"] == "ready"
