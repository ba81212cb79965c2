"""Decides whether the operations of one key's history can have happened one after the other, each
between its request and its reply (linearizability; the search is Wing and Gong's).

An operation with an unknown reply may have happened at any time after its request, or never. An
operation that certainly did not happen does not belong in a history.

A model has the first state, and `step(state, operation)`, which returns the next state, or
`IMPOSSIBLE` if the reply does not fit. With an unknown reply, the operation is applied; if it would
change nothing, it is IMPOSSIBLE, because that is the same as never. States are hashable.
"""

import math
import typing

IMPOSSIBLE = object()
UNKNOWN = object()
# The maximum number of states in a search.
PATIENCE = 500_000


class Operation(typing.NamedTuple):
    client: int
    name: str
    argument: object
    # UNKNOWN if there is no conclusive reply.
    result: object
    begin: float
    # math.inf if the result is unknown.
    end: float


def operation(client, name, argument, result, begin, end):
    return Operation(client, name, argument, result, begin, math.inf if result is UNKNOWN else end)


def is_linearizable(operations, model):
    operations = sorted(operations, key=lambda one: one.begin)
    required = sum(1 << n for n, one in enumerate(operations) if one.result is not UNKNOWN)
    todo = [(0, model.first)]
    seen = set(todo)
    while todo:
        done, state = todo.pop()
        if done & required == required:
            return True
        rest = [(n, one) for n, one in enumerate(operations) if not done >> n & 1]
        # An operation that begins after the end of another one comes after it.
        limit = min(one.end for _, one in rest)
        possible = [(n, one) for n, one in rest if one.begin <= limit]
        # The search takes the newest entry first, so the operation that ends first comes last.
        for n, one in sorted(possible, key=lambda pair: -pair[1].end):
            after = model.step(state, one)
            if after is IMPOSSIBLE:
                continue
            next_one = (done | 1 << n, after)
            if next_one not in seen:
                seen.add(next_one)
                assert len(seen) < PATIENCE, f"{len(operations)} operations are too many to decide on"
                todo.append(next_one)
    return False


class Countdown:
    """A countdown that does not end during the test: START, CANCEL, GET.

    Results: START ("accepted" or "refused", generation); CANCEL whether there was one; GET the
    generation, or None. The state is the generation, SOME after a START with an unknown reply.
    """

    first = None
    SOME = "some"

    def __init__(self, operations):
        self.accepted = {
            one.result[1] for one in operations
            if one.name == "START" and one.result is not UNKNOWN and one.result[0] == "accepted"
        }  # fmt: skip

    def is_same(self, state, generation):
        return state == generation or state == self.SOME and generation not in self.accepted

    def step(self, state, one):
        match one.name, one.result:
            case "START", result if result is UNKNOWN:
                return self.SOME if state is None else IMPOSSIBLE
            case "START", ("accepted", generation):
                return generation if state is None else IMPOSSIBLE
            case "START", ("refused", generation):
                return generation if state is not None and self.is_same(state, generation) else IMPOSSIBLE
            case "CANCEL", result if result is UNKNOWN:
                return None if state is not None else IMPOSSIBLE
            case "CANCEL", result:
                return None if result == (state is not None) else IMPOSSIBLE
            case "GET", None:
                return None if state is None else IMPOSSIBLE
            case "GET", generation:
                return generation if state is not None and self.is_same(state, generation) else IMPOSSIBLE
        raise AssertionError(one)


class Once:
    """An idempotency key: BEGIN, DONE, CANCEL, GET.

    Results: BEGIN ("accepted", None) or ("refused", the result or None while running); DONE
    ("accepted" or "refused", the stored result) or "NOTFOUND"; CANCEL whether there was one; GET
    (the result, ) or None.
    """

    first = None
    RUNNING = ("running",)

    def step(self, state, one):
        is_unknown = one.result is UNKNOWN
        match one.name:
            case "BEGIN":
                if is_unknown or one.result[0] == "accepted":
                    return self.RUNNING if state is None else IMPOSSIBLE
                shown = None if state == self.RUNNING else state and state[1]
                return state if state is not None and shown == one.result[1] else IMPOSSIBLE
            case "DONE":
                if is_unknown or one.result == ("accepted", one.argument):
                    return ("done", one.argument) if state == self.RUNNING else IMPOSSIBLE
                if one.result == "NOTFOUND":
                    return None if state is None else IMPOSSIBLE
                return state if state == ("done", one.result[1]) else IMPOSSIBLE
            case "CANCEL":
                if is_unknown:
                    return None if state is not None else IMPOSSIBLE
                return None if one.result == (state is not None) else IMPOSSIBLE
            case "GET":
                if state is None or one.result is None:
                    return state if state is one.result else IMPOSSIBLE
                return state if (state == self.RUNNING, state[-1]) == (
                    one.result[0] is None, one.result[0] or "running"
                ) else IMPOSSIBLE  # fmt: skip
        raise AssertionError(one)


class Throttle:
    """A rate limit that does not refill during the test: TAKE, GET.

    Results: TAKE ("accepted" or "refused", the remaining number); GET the remaining number.
    """

    def __init__(self, burst):
        self.first = burst

    def step(self, state, one):
        if one.name == "GET":
            return state if one.result == state else IMPOSSIBLE
        if one.result is UNKNOWN or one.result == ("accepted", state - 1):
            return state - 1 if state > 0 else IMPOSSIBLE
        return state if one.result == ("refused", 0) and state == 0 else IMPOSSIBLE
