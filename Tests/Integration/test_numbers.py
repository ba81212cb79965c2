"""Event numbers and generations keep rising, also across runs without durability."""

import pytest

from clocks import Clocks
from countdownd import view

HOUR = 3_600


@pytest.fixture
def daemon(start_daemon, tmp_path):
    clocks = Clocks(tmp_path)
    daemon = start_daemon(environment=clocks.environment())
    daemon.clocks = clocks
    return daemon


def go_on(daemon, durability):
    daemon.stop("terminate")
    daemon.arguments += ["--durability", durability] if durability else []
    daemon.start_again()
    return daemon.connect()


def start(client, key):
    """Starts a countdown; returns its generation and the number of the last event."""
    generation = view(client("COUNTDOWN", "START", key, "COUNT", 1, "EVERY", "10h"))["generation"]
    return generation, client("EVENTS", "LAST")


def test_numbers_rise_from_process_to_none_and_back_and_nothing_is_called_complete(daemon):
    client = daemon.connect()
    numbers = [start(client, "kept")]
    # Each restart moves the numbers further ahead of the clock.
    for _ in range(2):
        daemon.restart()
    client = daemon.connect()
    numbers.append(start(client, "kept too"))
    arguments = list(daemon.arguments)
    client = go_on(daemon, "none")
    numbers.append(start(client, "not kept"))
    daemon.clocks.suspend(3 * HOUR)
    client = go_on(daemon, None)
    numbers.append(start(client, "not kept, too"))
    daemon.arguments = arguments
    client = go_on(daemon, None)
    numbers.append(start(client, "kept again"))
    for one, next in zip(numbers, numbers[1:]):
        assert one[0] < next[0] and one[1] < next[1], numbers

    def since(number):
        found = view(client("EVENTS", "SINCE", number))
        return found["complete"], len(found["events"])

    # EVENTS SINCE returns the events that are left, and `complete` reports whether any are missing.
    assert [since(number) for _, number in numbers[1:]] == [(0, 1), (0, 1), (0, 1), (1, 0)]
    assert since(numbers[-1][1] - 1) == (1, 1)
    # Another restart loses nothing after the last stored number.
    client = go_on(daemon, None)
    assert since(numbers[-1][1]) == (1, 0)


def test_nothing_is_made_where_nothing_was_kept(start_daemon):
    daemon = start_daemon(arguments=["--durability", "none"])
    start(daemon.connect(), "k")
    daemon.stop("terminate")
    assert not daemon.state.exists()
