"""One round of torture: a daemon is loaded and killed a few times, and checked after each kill.

`model` says what it must have kept. The seed decides everything in a round, except when exactly the
daemon is killed and how much it has done by then.

Checks after each kill:
- all that was answered is there as answered: entities, hidden tokens and refunds, and events;
- of each client's unanswered commands, a prefix is executed, and the others not at all;
- every event that a subscriber received is in the event log, word for word;
- numbers of events and generations are higher than any before;
- what was due meanwhile has happened, once, and not early; nothing is there that no client started;
- what a connection owned is not there; and while nothing could be stored, it continued to work.
"""

import json
import os
import random
import re
import selectors
import time

from countdownd import PATIENCE, eventually
from fault_injection import Faults

from . import model
from .client import Client, is_owned
from .peers import Died, Peer, Subscriber, Victim, as_view, is_refused, milliseconds
from .soon import SOON, is_soon, soon_of

CONFIG = """
events:
  keep: 1000000
countdown:
  keep-ready: 1d
policies:
  login:
    ladder: [1h, 2h, 3h]
    windows: [1000/1d]
    validity: 10h
    attempts: 3
    guesses: 1000/1d
    refunds: 1000/1d
    on-resend: replace
"""

# About how many calls change files until the daemon listens.
CALLS_OF_A_START = 60


def brief(value):
    text = str(as_view(value))
    return re.sub(r"x{9,}", "x…", text)[:600]


class Round:
    def __init__(self, seed, durability, directory, lives=3, seconds=0.4):
        self.seed, self.durability, self.lives, self.seconds = seed, durability, lives, seconds
        self.random = random.Random(f"{seed} {durability}")
        self.state = directory / "state"
        self.state.mkdir(mode=0o700)
        self.faults = Faults(directory, self.state)
        # The entities that must be there, by kind and key; those that are due soon are separate.
        self.entities = {}
        self.soon = {}
        # The highest generation, the newest event, and the time of the last kill.
        self.newest, self.since, self.died = 0, 0, 0
        # The connections of the last life.
        self.clients, self.subscriber, self.is_in_trouble = [], None, False
        self.figures = {"commands": 0, "answered": 0, "refused": 0, "owned": 0, "events": 0, "kills": 0, "given up": 0}

    def run(self):
        self.daemon = Victim(
            directory=self.state.parent, state=self.state, config=CONFIG,
            arguments=["--durability", self.durability], environment=self.environment(),
            # Small, so that each life fills, folds and reuses segments.
            segment_size="64KiB",
        )
        try:
            for life in range(self.lives):
                self.live(life)
            self.begin(self.environment())
            self.check()
        except AssertionError:
            print(f"The daemon's log ends with:\n{self.daemon.log[-4000:]}")
            raise
        finally:
            self.daemon.kill()
        self.begin(self.environment())
        assert self.daemon.terminate() == 0
        self.daemon.close()
        return self.figures

    # Lives.

    def environment(self, **options):
        environment = self.faults.environment(log=False, shadow=self.durability == "power", **options)
        return environment | {"SWIFT_BACKTRACE": "enable=no"}

    def begin(self, environment):
        """Starts the daemon; raises Died if it is killed meanwhile."""
        if self.daemon.process.poll() is not None:
            self.daemon.environment = environment
            self.daemon.start()
        self.daemon.wait_until_up()

    def choose_fault(self):
        at = self.random.choice(
            [self.random.randint(1, CALLS_OF_A_START), CALLS_OF_A_START + int(10 ** self.random.uniform(0, 4))])
        return {"at": at, "action": self.random.choice(["kill-before", "kill-after", "tear"])}

    def choose_life(self, life):
        return self.random.choices(["moment", "call", "trouble"], [5, 4, 2] if life else [1, 0, 0])[0]

    def live(self, life):
        """Starts the daemon, checks the life before, loads the daemon, and kills it."""
        how, trouble = self.choose_life(life), None
        is_loaded = False
        try:
            if how == "call":
                fault = self.choose_fault()
                how = f"{fault['action']} at call {fault['at']}"
                self.begin(self.environment(**fault))
            elif how == "trouble":
                trouble = self.random.choice(["ENOSPC", "EIO"])
                how = f"trouble: {trouble}"
                self.begin(self.environment(at=1, action=trouble, lasting=True))
            else:
                self.begin(self.environment())
            self.check()
            is_loaded = True
            self.load(life, trouble)
        except Died:
            pass
        self.faults.mend()
        print(f"life {life}: {how}, {'killed by the fault' if self.daemon.process.poll() else 'killed'}"
            f"{'' if is_loaded else ' before it was loaded'}{' in trouble' if self.is_in_trouble else ''}")
        self.daemon.kill()
        self.daemon.may_give_up = False
        self.figures["kills"] += 1
        # Otherwise the life before is still to be checked.
        if is_loaded:
            self.collect()
        if self.durability == "power":
            self.faults.lose_power(self.random)

    def load(self, life, trouble=None):
        path = self.daemon.path
        self.clients, self.subscriber, self.is_in_trouble = [], None, False
        if self.random.random() < 0.5:
            self.subscriber = Subscriber(path)
        for number in range(self.random.randint(1, 5)):
            self.clients.append(Client(path, number, life, self.seed))
        self.pump(self.random.uniform(0.1, 1) * self.seconds)
        if trouble == "ENOSPC":
            self.fill_disk()
        elif trouble == "EIO":
            self.fail_writes()

    def fill_disk(self):
        """Once the reserved space is used, stored entities do not change; owned ones still do."""
        self.faults.damage()
        eventually(lambda: not self.pump(0.1) or not self.is_writable(), "it is full", pause=0)
        self.is_in_trouble = True
        self.drain()
        begins = [len(client.sent) for client in self.clients]
        self.pump(self.random.uniform(0.1, 0.5) * self.seconds)
        self.drain()
        for client, begin in zip(self.clients, begins):
            client.in_trouble = range(begin, len(client.sent))
        if self.random.random() < 0.5:
            self.faults.mend()
            eventually(self.is_writable, "it can write again", pause=0.05)
            self.is_in_trouble = False
            self.pump(self.random.uniform(0.1, 1) * self.seconds)

    def fail_writes(self):
        """Clients do not notice errors of up to a second; then the daemon ends. If it only fails
        to reserve the next segment, it refuses changes until it can."""
        self.faults.damage()
        if self.random.random() < 0.5:
            self.is_in_trouble = True
            self.pump(0.3)
            self.faults.mend()
            eventually(self.is_writable, "it can write again", pause=0.05)
            self.is_in_trouble = False
            self.drain()
            self.pump(self.random.uniform(0.1, 1) * self.seconds)
        else:
            self.daemon.may_give_up = True
            eventually(lambda: not self.pump(0.1) or self.refuses_changes(), "it has ended, or refuses changes", pause=0)
            self.is_in_trouble = self.refuses_changes()
            if not self.is_in_trouble:
                assert self.daemon.process.wait(PATIENCE) == os.EX_IOERR
                self.figures["given up"] += 1

    def refuses_changes(self):
        """Returns whether the daemon runs and cannot store."""
        try:
            return not self.is_writable()
        except Died:
            return False

    def is_writable(self):
        return b"read_only:0" in Peer(self.daemon.path).ask("INFO", "persistence")

    def pump(self, seconds):
        """Keeps clients busy; returns False if the daemon has ended."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            for client in self.clients:
                client.go_on()
            if not self.exchange(left):
                return False
        return True

    def drain(self):
        end = time.monotonic() + PATIENCE
        while any(len(client.replies) < len(client.sent) for client in self.clients):
            assert self.exchange(1) and time.monotonic() < end, "not all was answered"

    def exchange(self, seconds):
        """Writes and reads what it can, once; returns False if the daemon has ended."""
        peers = self.clients + ([self.subscriber] if self.subscriber else [])
        with selectors.DefaultSelector() as selector:
            for peer in peers:
                selector.register(
                    peer.socket, selectors.EVENT_READ | (selectors.EVENT_WRITE if peer.output else 0), peer)
            for key, ready in selector.select(seconds):
                if ready & selectors.EVENT_WRITE:
                    key.data.write()
                if ready & selectors.EVENT_READ:
                    key.data.read()
        return not any(peer.is_closed for peer in peers)

    def collect(self):
        """Reads what the daemon sent until it was killed, and notes the time."""
        for peer in self.clients + ([self.subscriber] if self.subscriber else []):
            while not peer.is_closed and peer.read():
                pass
            peer.socket.close()
        self.died = milliseconds()

    # Checks.

    def check(self):
        """Checks that all of the life before is there. Changes nothing, so it can be repeated."""
        # By then every near deadline has passed.
        time.sleep(max(0, (self.died + SOON[-1] + 1 - milliseconds()) / 1000))
        peer = Peer(self.daemon.path)
        seen = {(kind, key): view for kind in model.KINDS for key, view in self.list(peer, kind)}
        events, last = self.read_events(peer)
        assert last >= self.since, f"the newest event is {last}, and was {self.since}"
        if self.subscriber:
            lost = self.subscriber.heard(but_for_time=self.is_in_trouble) - set(events)
            assert not lost, f"published, but not kept: {list(lost)[:5]}"
        told = [json.loads(line) | {"kind": channel.split(b":")[0].decode().upper()} for channel, line in events]
        numbers = [event["seq"] for event in told]
        assert numbers == sorted(set(numbers)), "events are not in order"
        entities, soon = {}, dict(self.soon)
        for name, entity in self.entities.items():
            owner = name[1].split(":")[1]
            if not any(owner == client.name for client in self.clients):
                wrong = model.differences(entity, seen.get(name))
                assert not wrong, f"{name}, which nobody has touched: {wrong}"
                entities[name] = model.learn(entity, seen[name])
        for client in self.clients:
            own = [event for event in told if event["key"].split(":")[1] == client.name and event["key"][0] != "d"]
            entities |= self.check_client(client, seen, own, soon)
        self.check_soon(soon, seen, [event for event in told if event["key"].startswith("d")])
        entities = {name: entity for name, entity in entities.items() if model.outlives(entity)}
        strays = {name for name in seen if name not in entities and name not in soon}
        assert not strays, f"nobody has started {strays}"
        self.probe(peer, entities)
        newest = max([self.newest, *(event["generation"] for event in told), *(view["generation"] for view in seen.values())])
        next = as_view(peer.ask("COUNTDOWN", "START", "new", "OWNER", "connection"))["generation"]
        peer.ask("COUNTDOWN", "CANCEL", "new")
        assert next > newest, f"generation {next} after {newest}"
        # Every check has passed: the next life begins with this state.
        self.since = last
        self.entities, self.soon, self.newest = entities, soon, next
        self.figures["events"] += len(events)
        for client in self.clients:
            self.figures["commands"] += len(client.sent)
            self.figures["answered"] += len(client.replies)
            self.figures["refused"] += sum(is_refused(reply) for reply, _ in client.replies)
        self.clients, self.subscriber = [], None

    def list(self, peer, kind):
        cursor, first = b"0", True
        while first or cursor not in (b"0", 0):
            cursor, page = peer.ask(kind, "LIST", "LIMIT", 1000, "CURSOR", cursor)
            first = False
            for reply in page:
                view = as_view(reply)
                yield view["key"].decode(), view

    def read_events(self, peer):
        """Returns all events since the last check, as (channel, line), and the newest number."""
        events, after, more = [], self.since, True
        while more:
            reply = as_view(peer.ask("EVENTS", "SINCE", after, "LIMIT", 10_000))
            assert reply["complete"] or self.since == 0, "some events are missing"
            events += [tuple(event) for event in reply["events"]]
            after, more = reply["last_seq"], reply["more"]
        return events, after

    def check_client(self, client, seen, events, soon):
        """Returns the client's entities, if its commands explain them; adds those due soon."""
        entities = {name: entity for name, entity in self.entities.items() if name[1].split(":")[1] == client.name}
        newest = self.newest
        for place, (words, sent) in enumerate(client.sent[: len(client.replies)]):
            reply, received = client.replies[place]
            name = (words[0], words[2])
            if is_refused(reply):
                self.check_refusal(client, place, entities.get(name))
                continue
            if is_soon(words):
                assert isinstance(reply, list), (words, reply)
                soon[name] = soon_of(words, as_view(reply))
                continue
            entity, due, answer = model.apply(entities.get(name), words, (sent, received))
            if is_owned(words) and place in client.in_trouble and entity != entities.get(name):
                self.figures["owned"] += 1
            reply = as_view(reply)
            wrong = model.wrong_answer(answer, reply)
            if wrong:
                pairs = zip(client.sent[:place], client.replies)
                before = [(w[1:], brief(r)) for (w, _), (r, _) in pairs if (w[0], w[2]) == name]
                raise AssertionError(
                    f"{words} was answered otherwise than it must: {wrong}\nOn: {brief(entities.get(name))}\n"
                    f"Reply: {brief(reply)}\nBefore: " + "\n".join(map(str, before[-8:])))
            if entity and entity["generation"] is model.UNKNOWN:
                assert reply["generation"] > newest, f"{words} got generation {reply['generation']} after {newest}"
                newest = reply["generation"]
            # A view may show a throttle as it would be, for example with PEEK.
            shows_it = entity and answer[0] == "view" and answer[1][0] is entity
            entities[name] = model.learn(entity, reply) if shows_it else entity
            for event in due:
                assert events, f"{words} was answered, its event {event} is lost"
                self.match(events.pop(0), words, event, reply, place)
        return self.check_rest(client, entities, seen, events, soon)

    def check_refusal(self, client, place, entity):
        """Checks that no change to an entity of a connection was refused: it needs no storing."""
        words, sent = client.sent[place]
        if is_owned(words) and place in client.in_trouble:
            wanted, _, _ = model.apply(entity, words, (sent, sent))
            assert wanted == entity, f"{words} is about what a connection owns, and was refused"

    def check_rest(self, client, entities, seen, events, soon):
        """Checks that of the unanswered commands, a prefix was executed, and no others."""
        rest = client.sent[len(client.replies) :]
        for words, _ in rest:
            if is_soon(words):
                # Its events tell whether it was executed.
                soon[words[0], words[2]] = soon_of(words)
        # Not each change has an event, so entities that are not known yet are checked as well.
        for name in seen:
            if name[1].split(":")[1:2] == [client.name] and not name[1].startswith("d:"):
                entities.setdefault(name, None)
        wrong = self.wrong(entities, seen)
        if not wrong and not events:
            return self.learn(entities, seen)
        for words, sent in rest:
            if is_soon(words):
                continue
            name = (words[0], words[2])
            entity, due, _ = model.apply(entities.get(name), words, (sent, self.died))
            if due and len(events) < len(due):
                break
            entities[name] = entity
            for event in due:
                self.match(events.pop(0), words, event, entity, "not answered")
            if events:
                continue
            wrong = self.wrong(entities, seen)
            if not wrong:
                return self.learn(entities, seen)
        assert not events, f"nobody has done what is told of by {events[:5]}"
        raise AssertionError(f"{client.name}: {wrong}")

    def match(self, found, words, event, shown, place):
        """Checks that an event is the expected one, and learns its generation if it is unknown."""
        name, generation, fields = (*event, {})[:3]
        expected = (words[0], name, words[2])
        is_it = (found["kind"], found["event"], found["key"]) == expected
        assert is_it, f"{words} ({place}): expected {expected}, found {found}"
        if generation is model.UNKNOWN and shown and shown["generation"] is not model.UNKNOWN:
            generation = shown["generation"]
        if generation in (model.ANY, model.UNKNOWN):
            assert found["generation"] > self.newest
            if generation is model.UNKNOWN and shown:
                shown["generation"] = found["generation"]
        else:
            assert found["generation"] == generation, f"{words} ({place}): generation {generation}, found {found}"
        told = {field: found.get(field) for field in fields}
        assert told == fields, f"{words} ({place}): {name} must tell {fields}, found {found}"

    def wrong(self, entities, seen):
        found = {}
        for name, entity in entities.items():
            if different := model.differences(model.outlives(entity), seen.get(name)):
                found[name] = different
        return found

    def learn(self, entities, seen):
        left = {name: model.outlives(entity) for name, entity in entities.items()}
        return {name: entity and model.learn(entity, seen[name]) for name, entity in left.items()}

    def check_soon(self, soon, seen, told):
        """Checks that what was due soon has happened: once, and not early."""
        happened = {}
        for event in told:
            happened.setdefault((event["kind"], event["key"]), []).append(event)
        assert happened.keys() <= soon.keys(), f"nobody has started {list(happened.keys() - soon.keys())[:5]}"
        for name, one in list(soon.items()):
            one = soon[name] = one.after(happened.get(name, []))
            one.check(seen.get(name))
            if one.is_over:
                del soon[name]

    def probe(self, peer, entities):
        """Checks what no view shows: accepted tokens, and refunds."""
        commands, due = [], []
        for (kind, key), entity in entities.items():
            if kind == "COUNTDOWN" and entity["state"] in ("counting", "paused"):
                token = entity["token"]
                verb, text = token if isinstance(token, tuple) else ("START", token)
                if token is None:
                    verb, text = "RESEND", b"none"
                commands.append(("COUNTDOWN", verb, key, "TOKEN", text))
                due.append((1, b"repeated") if token else (0, b"cooldown"))
            elif kind == "COUNTDOWN" and entity["refunded"]:
                commands.append(("COUNTDOWN", "REFUND", key, "GENERATION", entity["generation"]))
                due.append((1, b"repeated"))
        for command, reply, expected in zip(commands, peer.ask_all(commands) if commands else [], due):
            view = as_view(reply)
            assert (view["accepted"], view["reason"]) == expected, (command, view)
