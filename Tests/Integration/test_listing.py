"""LIST while two clients make and end things: complete, and nothing twice."""

import random

import pytest

from countdownd import view

FAMILIES = {
    "COUNTDOWN": (["START"], ["CANCEL"]),
    "HUD": (["SHOW", "FADEIN", "0", "FADEOUT", "0"], ["DISMISS"]),
    "TIMER": (["SET", "1h"], ["DEL"]),
}


class Churn:
    """Makes and ends entities at random, from two connections, and knows what is there."""

    def __init__(self, family, clients, choices, keys):
        self.family, self.clients, self.choices, self.keys = family, clients, choices, keys
        self.there = {}

    def once(self):
        key = b"%d" % self.choices.randrange(self.keys)
        begin, end = FAMILIES[self.family]
        client = self.choices.choice(self.clients)
        if key in self.there:
            client(self.family, end[0], key)
            del self.there[key]
        else:
            made = client(self.family, begin[0], key, *begin[1:])
            self.there[key] = view(made)["generation"]

    def empty(self):
        for key in list(self.there):
            self.clients[0](self.family, FAMILIES[self.family][1][0], key)
        self.there = {}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("family", FAMILIES)
def test_what_stays_is_listed_once_while_two_clients_come_and_go(daemon, family, seed):
    choices = random.Random(seed)
    clients = [daemon.connect(), daemon.connect(protocol=3)]
    churn = Churn(family, clients, choices, keys=[5, 40][seed])
    for number in range(25):
        if number % 8 == 7:
            churn.empty()
        for _ in range(churn.keys // 2 + 2):
            churn.once()
        words = ["LIMIT", choices.randint(1, 9)]
        pattern = number % 3 == 1
        words += ["MATCH", "*1*"] if pattern else []
        staying = {key: made for key, made in churn.there.items() if b"1" in key or not pattern}
        seen, cursor = [], b"0"
        while True:
            reader = choices.choice(clients)
            cursor, page = reader(family, "LIST", *words, "CURSOR", cursor)
            seen += [(entry["key"], entry["generation"]) for entry in map(view, page)]
            if cursor == b"0":
                break
            for _ in range(choices.randrange(6)):
                churn.once()
            staying = {
                key: made for key, made in staying.items() if churn.there.get(key) == made
            }
        assert len(set(seen)) == len(seen), "something twice"
        assert set(staying.items()) <= set(seen), "something is missing"
        assert all(b"1" in key for key, _ in seen) or not pattern


def test_the_last_timer_set_anew_between_two_pages_is_listed(daemon):
    one, other = daemon.connect(), daemon.connect()
    for key in "abc":
        one("TIMER", "SET", key, "1h")
    cursor, _ = one("TIMER", "LIST", "LIMIT", "1")
    other("TIMER", "DEL", "a")
    other("TIMER", "DEL", "b")
    other("TIMER", "SET", "c", "2h")
    keys = []
    while cursor != b"0":
        cursor, page = one("TIMER", "LIST", "LIMIT", "1", "CURSOR", cursor)
        keys += [view(entry)["key"] for entry in page]
    assert keys == [b"c"]
