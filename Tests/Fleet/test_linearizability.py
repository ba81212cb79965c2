"""The checker accepts the histories that can have happened, and no others."""

import random

import pytest

from linearizability import UNKNOWN, Countdown, Once, Throttle, is_linearizable, operation


def history(*lines):
    """Returns an operation for each (name, argument, result, begin, end), all of other clients."""
    return [operation(client, *line) for client, line in enumerate(lines)]


def countdown(*lines):
    operations = history(*((name, None, result, begin, end) for name, result, begin, end in lines))
    return is_linearizable(operations, Countdown(operations))


ACCEPTED_A, ACCEPTED_B, REFUSED_A = ("accepted", "a"), ("accepted", "b"), ("refused", "a")


@pytest.mark.parametrize("lines", [
    [],
    [("START", ACCEPTED_A, 0, 1), ("START", REFUSED_A, 2, 3), ("GET", "a", 4, 5)],
    # The refusal was received first, but its request was still under way during the other START.
    [("START", REFUSED_A, 0, 2), ("START", ACCEPTED_A, 1, 3)],
    [("START", ACCEPTED_A, 0, 9), ("GET", None, 1, 2), ("GET", "a", 3, 4)],
    [("START", ACCEPTED_A, 0, 1), ("CANCEL", True, 2, 3), ("START", ACCEPTED_B, 4, 5), ("CANCEL", True, 6, 7), ("GET", None, 8, 9)],
    # Either of two overlapping starts may be the first.
    [("START", ACCEPTED_B, 0, 5), ("START", ACCEPTED_A, 0, 5), ("CANCEL", True, 0, 5), ("GET", "b", 6, 7)],
    # An unknown START may happen long after the client gave up, or never.
    [("START", UNKNOWN, 0, 1), ("GET", None, 2, 3), ("START", REFUSED_A, 4, 5), ("GET", "a", 6, 7)],
    [("START", UNKNOWN, 0, 1), ("START", ACCEPTED_A, 2, 3)],
    [("START", ACCEPTED_A, 0, 1), ("CANCEL", UNKNOWN, 2, 3), ("GET", "a", 4, 5), ("START", ACCEPTED_B, 6, 7)],
])  # fmt: skip
def test_accepts_histories_of_countdowns_that_can_have_happened(lines):
    assert countdown(*lines)


@pytest.mark.parametrize("lines", [
    # Sent twice.
    [("START", ACCEPTED_A, 0, 1), ("START", ACCEPTED_B, 2, 3)],
    [("START", ACCEPTED_A, 0, 9), ("START", ACCEPTED_B, 2, 3)],
    # Refused before any START was accepted.
    [("START", REFUSED_A, 0, 1), ("START", ACCEPTED_A, 2, 3)],
    [("START", REFUSED_A, 0, 1)],
    # A change is lost.
    [("START", ACCEPTED_A, 0, 1), ("GET", None, 2, 3)],
    [("START", ACCEPTED_A, 0, 1), ("CANCEL", False, 2, 3)],
    [("START", ACCEPTED_A, 0, 1), ("CANCEL", True, 2, 3), ("START", ACCEPTED_B, 4, 5), ("GET", "a", 6, 7)],
    # A stale read, and one that goes back in time.
    [("START", ACCEPTED_A, 0, 1), ("CANCEL", True, 2, 3), ("GET", "a", 4, 5)],
    [("START", ACCEPTED_A, 0, 9), ("GET", "a", 1, 2), ("GET", None, 3, 4)],
    # An unknown START explains one generation, and not that of an accepted START.
    [("START", UNKNOWN, 0, 1), ("GET", "x", 2, 3), ("GET", "y", 4, 5)],
    [("START", UNKNOWN, 0, 1), ("GET", "a", 2, 3), ("START", ACCEPTED_A, 4, 5)],
    [("START", UNKNOWN, 4, 5), ("GET", "x", 2, 3)],
])  # fmt: skip
def test_finds_histories_of_countdowns_that_cannot_have_happened(lines):
    assert not countdown(*lines)


def once(*lines):
    return is_linearizable(history(*lines), Once())


def test_knows_what_a_key_that_runs_once_replies():
    begin = ("BEGIN", None, ("accepted", None), 0, 1)
    done = ("DONE", "r", ("accepted", "r"), 2, 3)
    assert once(begin, done, ("BEGIN", None, ("refused", "r"), 4, 5), ("GET", None, ("r",), 6, 7))
    assert once(begin, ("BEGIN", None, ("refused", None), 2, 3), ("GET", None, (None,), 4, 5), ("CANCEL", None, True, 6, 7))
    assert once(begin, done, ("DONE", "s", ("refused", "r"), 4, 5))
    assert once(begin, ("DONE", "r", UNKNOWN, 2, 3), ("BEGIN", None, ("refused", "r"), 4, 5))
    assert once(("DONE", "r", "NOTFOUND", 0, 1), ("CANCEL", None, False, 2, 3), ("GET", None, None, 4, 5))
    assert not once(begin, ("BEGIN", None, ("accepted", None), 2, 3))
    assert not once(begin, done, ("BEGIN", None, ("refused", None), 4, 5))
    assert not once(begin, done, ("DONE", "s", ("accepted", "s"), 4, 5))
    assert not once(begin, done, ("GET", None, ("s",), 4, 5))
    assert not once(begin, done, ("GET", None, (None,), 4, 5))
    assert not once(begin, ("GET", None, None, 2, 3))
    assert not once(("GET", None, (None,), 0, 1))
    assert not once(begin, ("DONE", "r", "NOTFOUND", 2, 3))


def takes(*lines):
    return is_linearizable(history(*(("TAKE", None, *line) for line in lines)), Throttle(2))


def test_knows_how_much_of_a_rate_limit_there_is():
    one, two, none = ("accepted", 1), ("accepted", 0), ("refused", 0)
    assert takes((one, 0, 1), (two, 2, 3), (none, 4, 5))
    assert takes((two, 0, 3), (one, 1, 2), (none, 2, 5))
    assert takes((UNKNOWN, 0, 1), (two, 2, 3), (none, 4, 5))
    assert takes((one, 0, 1), (UNKNOWN, 0, 1), (two, 2, 3), (none, 4, 5))
    assert not takes((one, 0, 1), (one, 2, 3))
    assert not takes((one, 0, 1), (none, 2, 3))
    assert not takes((one, 0, 1), (UNKNOWN, 0, 1), (UNKNOWN, 0, 1), (one, 4, 5))
    assert not takes((two, 0, 1), (one, 2, 3))
    assert not takes((one, 0, 1), (two, 2, 3), (two, 4, 5))


def test_agrees_with_a_real_register_and_notices_one_changed_reply():
    """Random histories of one countdown, whose operations happen between request and reply."""
    noticed = changed = 0
    for seed in range(200):
        choose = random.Random(seed)
        state, operations = None, []
        moment = 0.0
        for number in range(30):
            moment += 1
            name = choose.choice(["START", "START", "CANCEL", "GET"])
            match name:
                case "START":
                    result = ("refused", state) if state else ("accepted", f"g{number}")
                    state = result[1]
                case "CANCEL":
                    result, state = state is not None, None
                case "GET":
                    result = state
            if name != "GET" and choose.random() < 0.05:
                result = UNKNOWN
            operations.append(
                operation(number, name, None, result, moment - choose.random() * 3, moment + choose.random() * 3)
            )
        assert is_linearizable(operations, Countdown(operations)), seed
        place = choose.randrange(30)
        one = operations[place]
        if one.name == "GET":
            operations[place] = one._replace(result="g99" if one.result is None else None)
            changed += 1
            noticed += not is_linearizable(operations, Countdown(operations))
    # Some of the changed histories are possible, too.
    assert noticed > changed / 3 > 10
