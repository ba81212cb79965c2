"""One round of torture: a daemon is loaded and killed a few times, and each time asked what it has kept.

What it must have kept is said by `torture_model`. All that a round decides comes from its seed; when exactly the
daemon is killed, and what it had done by then, is the machine's affair.

What is checked after each kill:
- all that was answered is there, as it was answered: entities, their hidden tokens and refunds, and their events;
- of what each client had sent beyond that, the first so many commands are there, wholly, and nothing of the others;
- whatever subscribers were told of is in the tail, in the same words;
- numbers of events and generations are higher than any that was seen before;
- what was due meanwhile has happened, once, and not early; nothing is there that nobody started.
"""

import json
import random
import re
import selectors
import signal
import socket
import time

import hiredis

import torture_model as model
from countdownd import PATIENCE, Daemon, eventually, request
from fault_injection import Faults

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
    on-resend: replace
"""

# Calls that change files until the daemon listens, about.
CALLS_OF_A_START = 60
# Milliseconds; what is due so soon may be so while the daemon runs, or before it runs again.
SOON = [1, 20, 80, 200]


class Died(Exception):
    """The daemon has been killed, as it was meant to."""


def milliseconds():
    return time.time_ns() // 1_000_000


def brief(value):
    text = str(as_view(value))
    return re.sub(r"x{9,}", "x…", text)[:600]


def as_view(reply):
    return {name.decode(): value for name, value in zip(reply[::2], reply[1::2])} if isinstance(reply, list) else reply


class Soon:
    """What is due soon, once or again and again, as far as its events have told."""

    def __init__(self, words, generation, deadline=None, fired=0, passed=0):
        self.words, self.generation, self.deadline = words, generation, deadline
        # How often it has happened, and how many periods have passed.
        self.fired, self.passed = fired, passed
        self.options = dict(zip(words[4::2], words[5::2])) if words[0] == "TIMER" else {}

    @property
    def is_over(self):
        return self.words[0] == "TIMER" and "EVERY" not in self.options and self.fired == 1

    def after(self, events):
        """The same after more has happened; an assertion fails if it cannot have."""
        new = Soon(self.words, self.generation, self.deadline, self.fired, self.passed)
        begun = self.deadline is not None
        for event in events:
            if event["event"] in ("started", "set"):
                assert not begun, f"{self.words} was done twice"
                begun = True
                new.deadline = event["deadline_unix_ms"]
                new.generation = new.generation or event["generation"]
            else:
                assert begun, f"{event} before its start"
                new.happen(event)
            assert event["generation"] == new.generation, f"{self.words}: generation {new.generation}, found {event}"
        assert begun or self.generation is None, f"{self.words} was answered, that it has begun is lost"
        return new

    def happen(self, event):
        assert event["event"] in ("ready", "fired") and event["late_us"] >= 0, event
        missed = event.get("missed", 0)
        every = self.options.get("EVERY", 0)
        due = self.deadline + every * (self.passed + (missed if self.options.get("LATE") == "coalesce" else 0))
        assert abs(event["due_unix_ms"] - due) <= model.TOLERANCE, f"{self.words}: due {due}, found {event}"
        assert self.fired == 0 or every, f"{self.words} has happened twice"
        self.fired += 1
        self.passed += missed + 1
        assert event.get("fired", 1) == self.fired, f"{self.words}: {self.fired} times, found {event}"


def is_refused(reply):
    return isinstance(reply, Exception) and str(reply).startswith("READONLY")


class Victim(Daemon):
    """A daemon that may be killed at any moment, also while it starts."""

    def start(self):
        self.start_without_waiting()

    def has_been_killed(self):
        if self.process.poll() is None:
            return False
        assert self.process.returncode == -signal.SIGKILL, (self.process.returncode, self.log[-4000:])
        return True

    def wait_until_up(self):
        self.is_expected_to_run = False

        def is_up():
            if self.has_been_killed():
                raise Died
            try:
                return Peer(self.path).ask("INFO", "persistence").count(b"loading:0") == 1
            except Died:
                return False

        eventually(is_up, "it is up", pause=0.002)


class Peer:
    """A connection that sends whole pipelines, and remembers what became of each command."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE)
        try:
            self.socket.connect(str(path))
        except OSError as error:
            raise Died from error
        self.reader = hiredis.Reader()
        self.sent = []
        self.replies = []
        self.output = b""
        self.is_closed = False

    def send(self, words):
        self.sent.append((words, milliseconds()))
        self.output += request(*words)

    def write(self):
        try:
            self.output = self.output[self.socket.send(self.output) :]
        except BlockingIOError:
            pass
        except OSError:
            self.output = b""
            self.is_closed = True

    def read(self):
        """False if nothing more can come."""
        try:
            data = self.socket.recv(1 << 20)
        except BlockingIOError:
            return True
        except ConnectionError:
            data = b""
        if not data:
            self.is_closed = True
            return False
        self.reader.feed(data)
        while (reply := self.reader.gets()) is not False:
            self.replies.append((reply, milliseconds()))
        return True

    def ask(self, *words):
        return self.ask_all([words])[0]

    def ask_all(self, commands):
        """Sends all, and returns all replies; raises Died if they do not come."""
        try:
            self.socket.sendall(b"".join(request(*words) for words in commands))
        except OSError as error:
            raise Died from error
        count = len(self.replies) + len(commands)
        while len(self.replies) < count:
            if not self.read():
                raise Died
        replies = [reply for reply, _ in self.replies[-len(commands) :]]
        del self.replies[-len(commands) :]
        return replies


class Client(Peer):
    """A peer with keys of its own, whose commands are made up as it goes."""

    def __init__(self, path, number, life, seed, owners):
        super().__init__(path)
        self.owners = owners
        self.socket.setblocking(False)
        self.name = f"c{number}"
        self.life = life
        self.random = random.Random(f"{seed} {number} {life}")
        self.generations = {}
        self.counted = 0
        self.window = self.random.choice([1, 2, 10, 100, 1000])

    def make(self):
        """The next command."""
        choose = self.random
        self.counted += 1
        kind = choose.choices(["k", "p", "t", "d"], [8, 4, 5, 2])[0]
        if kind == "d":
            return self.make_due()
        key = f"{kind}:{self.name}:{choose.randrange(12)}"
        words = {"k": self.make_countdown, "p": self.make_countdown, "t": self.make_timer}[kind](key)
        known = self.generations.get(words[:1] + words[2:3])
        if words[1] == "REFUND" or (known and words[1] not in ("START", "RESEND", "SET") and choose.random() < 0.2):
            words += ("GENERATION", known or 1)
        return words

    def make_countdown(self, key):
        choose = self.random
        commands = ["START", "RESEND", "CANCEL", "PAUSE", "RESUME", "RETIME", "REFUND"]
        weights = [6, 2, 2, 2, 2, 3, 2]
        if key.startswith("p"):
            commands, weights = commands + ["ATTEMPT", "PASS"], weights + [3, 1]
        command = choose.choices(commands, weights)[0]
        words = ("COUNTDOWN", command, key)
        if command == "RETIME":
            return words + (choose.choice([0, 2 * model.HOUR + self.counted]),)
        if command == "START":
            if key.startswith("p"):
                words += ("POLICY", "login")
            else:
                words += ("COUNT", choose.randint(2, 5), "EVERY", model.HOUR) + (("FIRE",) if choose.random() < 0.2 else ())
            words += self.some("TITLE", [b"%ds", b"wait %d\xff", b""]) + self.some("READYTITLE", [b"again", b"\0%"])
            words += self.some("META", [b"m%d" % self.counted, b"x" * choose.randint(0, 1500), b""])
            words += self.some("OWNER", self.owners)
        if command in ("START", "RESEND"):
            words += self.some("TOKEN", [b"a", b"b", b"t%d" % self.counted])
        return words

    def make_timer(self, key):
        choose = self.random
        command = choose.choices(["SET", "DEL", "PAUSE", "RESUME", "RETIME"], [6, 2, 2, 2, 2])[0]
        words = ("TIMER", command, key)
        if command == "RETIME":
            return words + (3 * model.HOUR + self.counted,)
        if command == "SET":
            words += (model.HOUR + self.counted,) + self.some("EVERY", [model.HOUR])
            words += self.some("PAYLOAD", [b"p%d" % self.counted, b"\0\r\n"]) + self.some("CLOCK", ["boot", "wall"])
            words += self.some("LATE", ["fire", "skip", "coalesce"]) + self.some("OWNER", self.owners)
        return words

    def make_due(self):
        """What is due soon; each key is used once, by one command."""
        choose = self.random
        key, soon = f"d:{self.name}:{self.life}:{self.counted}", choose.choice(SOON)
        if choose.random() < 0.5:
            return ("COUNTDOWN", "START", key, "COUNT", 1, "EVERY", soon)
        late = choose.choice(["fire", "coalesce"])
        words = ("TIMER", "SET", key, soon, "LATE", late, "CLOCK", choose.choice(["boot", "wall"]))
        return words + (("EVERY", choose.choice([40, 250])) if choose.random() < 0.2 else ())

    def some(self, name, values):
        return (name, self.random.choice(values)) if self.random.random() < 0.5 else ()

    def go_on(self):
        for reply, _ in self.replies[self.learned :]:
            words, _ = self.sent[self.learned]
            self.learned += 1
            if isinstance(reply, list):
                self.generations[words[:1] + words[2:3]] = as_view(reply).get("generation")
        room = self.window - (len(self.sent) - len(self.replies))
        if room > 0 and len(self.output) < 1 << 16:
            for _ in range(self.random.randint(1, min(room, 200))):
                self.send(self.make())

    learned = 0


class Subscriber(Peer):
    """Hears of everything."""

    def __init__(self, path):
        super().__init__(path)
        self.ask("HELLO", 3)
        self.ask("PSUBSCRIBE", "*")
        self.socket.setblocking(False)

    def heard(self, but_for_time):
        """What is to be in the tail: pairs of channel and line. What time has done may happen again."""
        heard, owned = set(), set()
        for message, _ in self.replies:
            if message[0] != b"pmessage":
                continue
            event = json.loads(message[3])
            # Only the first event of a generation tells.
            if event.get("owner", "none") != "none":
                owned.add(event["generation"])
            if event["event"] in ("tick", "refused", "snapshot") or but_for_time and "late_us" in event:
                continue
            if event["generation"] not in owned:
                heard.add((message[2], message[3]))
        return heard


class Round:
    def __init__(self, seed, durability, directory, lives=3, seconds=0.4):
        self.seed, self.durability, self.lives, self.seconds = seed, durability, lives, seconds
        self.random = random.Random(f"{seed} {durability}")
        self.state = directory / "state"
        self.state.mkdir(mode=0o700)
        self.faults = Faults(directory, self.state)
        # What must be there, by kind and key; what is due soon is apart.
        self.entities = {}
        self.soon = {}
        # The highest generation, the newest event, and when it died last.
        self.newest, self.since, self.died = 0, 0, 0
        # Those who loaded the daemon last.
        self.clients, self.subscriber, self.is_in_trouble = [], None, False
        self.figures = {"commands": 0, "answered": 0, "refused": 0, "events": 0, "kills": 0}

    def run(self):
        self.daemon = Victim(
            directory=self.state.parent, state=self.state, config=CONFIG,
            arguments=["--durability", self.durability], environment=self.environment(),
        )
        try:
            for life in range(self.lives):
                self.live(life)
            self.begin(self.environment())
            self.check()
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
        return self.random.choices(["moment", "call", "trouble"], [5, 4, 1] if life else [1, 0, 0])[0]

    def live(self, life):
        """It is started, asked about the life before, loaded, and killed."""
        how = self.choose_life(life)
        is_loaded = False
        try:
            if how == "call":
                fault = self.choose_fault()
                how = f"{fault['action']} at call {fault['at']}"
                self.begin(self.environment(**fault))
            elif how == "trouble":
                self.trouble = self.random.choice(["ENOSPC", "EIO"])
                how = f"trouble: {self.trouble}"
                self.begin(self.environment(at=1, action=self.trouble, lasting=True))
            else:
                self.begin(self.environment())
            self.check()
            is_loaded = True
            self.load(life, how.startswith("trouble"))
        except Died:
            pass
        self.faults.mend()
        print(f"life {life}: {how}, {'killed by the fault' if self.daemon.process.poll() else 'killed'}"
            f"{'' if is_loaded else ' before it was loaded'}{' in trouble' if self.is_in_trouble else ''}")
        self.daemon.kill()
        self.figures["kills"] += 1
        # Else what the life before has left is still to be looked at.
        if is_loaded:
            self.collect()
        if self.durability == "power":
            self.faults.lose_power(self.random)

    def load(self, life, is_in_trouble):
        path = self.daemon.path
        self.clients, self.subscriber, self.is_in_trouble = [], None, False
        if self.random.random() < 0.5:
            self.subscriber = Subscriber(path)
        for number in range(self.random.randint(1, 5)):
            # What is kept comes back when what took its name in the same turn could not be stored: in trouble no
            # client gives away a name that it has just taken from what is kept.
            owners = ["none"] if is_in_trouble else ["connection", "none", "none"]
            self.clients.append(Client(path, number, life, self.seed, owners))
        self.pump(self.random.uniform(0.1, 1) * self.seconds)
        if is_in_trouble:
            self.make_trouble()

    def make_trouble(self):
        self.is_in_trouble = True
        self.faults.damage()
        self.pump(self.random.uniform(0.1, 0.5) * self.seconds)
        # What was done and what was refused is known only of what was answered.
        self.drain()
        # Where nothing at all can be written, what a sync that failed was for cannot be made undone: it has to be
        # mended, or what was refused may be there.
        if self.trouble == "EIO" or self.random.random() < 0.5:
            self.faults.mend()
            eventually(self.is_writable, "it can write again", pause=0.05)
            self.is_in_trouble = False
            self.pump(self.random.uniform(0.1, 1) * self.seconds)

    def is_writable(self):
        return b"read_only:0" in Peer(self.daemon.path).ask("INFO", "persistence")

    def pump(self, seconds):
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            for client in self.clients:
                client.go_on()
            if not self.exchange(left):
                return

    def drain(self):
        end = time.monotonic() + PATIENCE
        while any(len(client.replies) < len(client.sent) for client in self.clients):
            assert self.exchange(1) and time.monotonic() < end, "not all was answered"

    def exchange(self, seconds):
        """Writes and reads what can be; False if the daemon is gone."""
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
        """It is dead: what it has said to the end, and until when."""
        for peer in self.clients + ([self.subscriber] if self.subscriber else []):
            while not peer.is_closed and peer.read():
                pass
            peer.socket.close()
        self.died = milliseconds()

    # Checks.

    def check(self):
        """That of the life before everything is there. Asks only, so that it can be done again."""
        # By then everything that was to be soon is due.
        time.sleep(max(0, (self.died + SOON[-1] + 1 - milliseconds()) / 1000))
        peer = Peer(self.daemon.path)
        seen = {(kind, key): view for kind in ("COUNTDOWN", "TIMER") for key, view in self.list(peer, kind)}
        events, last = self.read_events(peer)
        assert last >= self.since, f"the newest event is {last}, and was {self.since}"
        if self.subscriber:
            lost = self.subscriber.heard(but_for_time=self.is_in_trouble) - set(events)
            assert not lost, f"published, but not kept: {list(lost)[:5]}"
        told = [json.loads(line) for _, line in events]
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
            own = [event for event in told if event["key"].startswith(("k", "p", "t"))]
            own = [event for event in own if event["key"].split(":")[1] == client.name]
            entities |= self.check_client(client, seen, own, soon)
        self.check_soon(soon, seen, [event for event in told if event["key"].startswith("d")])
        entities = {name: entity for name, entity in entities.items() if model.outlives(entity)}
        strays = {name for name in seen if name not in entities and name not in soon}
        assert not strays, f"nobody has started {strays}"
        self.probe(peer, entities)
        newest = max([self.newest, *(event["generation"] for event in told)])
        next = as_view(peer.ask("COUNTDOWN", "START", "new", "OWNER", "connection"))["generation"]
        peer.ask("COUNTDOWN", "CANCEL", "new")
        assert next > newest, f"generation {next} after {newest}"
        # All was well: the next life begins with this.
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
        """All since the check before, as pairs of channel and line; and the number of the newest."""
        events, after, more = [], self.since, True
        while more:
            reply = as_view(peer.ask("EVENTS", "SINCE", after, "LIMIT", 10_000))
            assert reply["complete"] or self.since == 0, "some events are missing"
            events += [tuple(event) for event in reply["events"]]
            after, more = reply["last_seq"], reply["more"]
        return events, after

    def check_client(self, client, seen, events, soon):
        """How the client's entities are now, if that can come of what it did; adds what was to be soon."""
        entities = {name: entity for name, entity in self.entities.items() if name[1].split(":")[1] == client.name}
        newest = self.newest
        for place, (words, sent) in enumerate(client.sent[: len(client.replies)]):
            reply, received = client.replies[place]
            if is_refused(reply):
                continue
            name = (words[0], words[2])
            if words[2].startswith("d:"):
                assert isinstance(reply, list), (words, reply)
                soon[name] = Soon(words, as_view(reply)["generation"])
                continue
            entity, due, answer = model.apply(entities.get(name), words, (sent, received))
            reply = as_view(reply)
            wrong = model.wrong_answer(answer, reply)
            if wrong:
                before = [(w[1:], brief(r)) for (w, _), (r, _) in zip(client.sent[:place], client.replies) if w[2] == words[2]]
                raise AssertionError(
                    f"{words} was answered otherwise than it must: {wrong}\nOn: {brief(entities.get(name))}\n"
                    f"Reply: {brief(reply)}\nBefore: " + "\n".join(map(str, before[-8:])))
            if entity and entity["generation"] is model.UNKNOWN:
                assert reply["generation"] > newest, f"{words} got generation {reply['generation']} after {newest}"
                newest = reply["generation"]
            entities[name] = model.learn(entity, reply) if entity and isinstance(reply, dict) else entity
            for event, generation in due:
                assert events, f"{words} was answered, its event {event} is lost"
                self.match(events.pop(0), words, event, generation, entities[name], place)
        return self.check_rest(client, entities, seen, events, soon)

    def check_rest(self, client, entities, seen, events, soon):
        """Of what was not answered the first so many commands were done, and no others."""
        rest = client.sent[len(client.replies) :]
        for words, _ in rest:
            if words[2].startswith("d:"):
                # Its events tell whether it was done.
                soon[words[0], words[2]] = Soon(words, None)
        wrong = self.wrong(entities, seen)
        if not wrong and not events:
            return self.learn(entities, seen)
        for words, sent in rest:
            if words[2].startswith("d:"):
                continue
            name = (words[0], words[2])
            entity, due, _ = model.apply(entities.get(name), words, (sent, self.died))
            if due and len(events) < len(due):
                break
            entities[name] = entity
            for event, generation in due:
                self.match(events.pop(0), words, event, generation, entity, "not answered")
            if events:
                continue
            wrong = self.wrong(entities, seen)
            if not wrong:
                return self.learn(entities, seen)
        assert not events, f"nobody has done what is told of by {events[:5]}"
        raise AssertionError(f"{client.name}: {wrong}")

    def match(self, found, words, event, generation, entity, place):
        expected = (event, words[2])
        assert (found["event"], found["key"]) == expected, f"{words} ({place}): expected {expected}, found {found}"
        if generation is model.UNKNOWN:
            if entity["generation"] is model.UNKNOWN:
                assert found["generation"] > self.newest
                entity["generation"] = found["generation"]
            generation = entity["generation"]
        assert found["generation"] == generation, f"{words} ({place}): generation {generation}, found {found}"

    def wrong(self, entities, seen):
        found = {}
        for name, entity in entities.items():
            if different := model.differences(model.outlives(entity), seen.get(name)):
                found[name] = different
        return found

    def learn(self, entities, seen):
        return {
            name: model.learn(entity, seen[name]) if model.outlives(entity) else None
            for name, entity in entities.items()
        }

    def check_soon(self, soon, seen, told):
        """What was soon due has happened by now: once, not early, and late if it was late."""
        happened = {}
        for event in told:
            kind = "TIMER" if event["event"] in ("set", "fired") else "COUNTDOWN"
            happened.setdefault((kind, event["key"]), []).append(event)
        assert happened.keys() <= soon.keys(), f"nobody has started {list(happened.keys() - soon.keys())[:5]}"
        for name, one in list(soon.items()):
            one = soon[name] = one.after(happened.get(name, []))
            view = seen.get(name)
            if one.generation is None or one.is_over:
                assert view is None, f"{name} is over or never was, found {view}"
                del soon[name]
            elif name[0] == "COUNTDOWN":
                assert view and (view["state"], view["generation"]) == (b"ready", one.generation), f"{name}: {view}"
                assert one.fired == 1, f"{name} is ready, and was {one.fired} times"
            else:
                assert view and view["generation"] == one.generation, f"{name}: {view}"
                # More may have come since it was listed.
                assert 1 <= view["fired"] <= one.fired, f"{name} has fired {view['fired']} times, told of {one.fired}"

    def probe(self, peer, entities):
        """What no view shows: an accepted token, and that something was given back."""
        commands, due = [], []
        for (kind, key), entity in entities.items():
            if kind == "COUNTDOWN" and entity["state"] in ("counting", "paused"):
                token = entity["token"]
                commands.append(("COUNTDOWN", "RESEND", key, "TOKEN", token or b"none"))
                due.append((1, b"duplicate") if token else (0, b"cooldown"))
            elif kind == "COUNTDOWN" and entity["refunded"]:
                commands.append(("COUNTDOWN", "REFUND", key, "GENERATION", entity["generation"]))
                due.append((1, b"duplicate"))
        for command, reply, expected in zip(commands, peer.ask_all(commands) if commands else [], due):
            view = as_view(reply)
            assert (view["accepted"], view["reason"]) == expected, (command, view)
