"""The driver of the Python client; contract_tools.py has what a driver is."""

import asyncio
import json
import sys

from countdownd import AsyncClient, Closed, Down


class Driver:
    def __init__(self):
        self.client, self.tasks, self.watches = None, {}, {}

    def say(self, number, **fields):
        print(json.dumps({"id": number, **fields}), flush=True)

    def fail(self, number, error, **fields):
        kinds = [getattr(error, "code", "argument")]
        names = {
            Down: "down", Closed: "closed", asyncio.CancelledError: "cancelled",
            (TypeError, ValueError): "argument",
            TimeoutError: "timeout",
        }  # fmt: skip
        kinds += [name for type_, name in names.items() if isinstance(error, type_)]
        # A CancelledError has no other place to say it.
        its = error.__cause__ if isinstance(error, TimeoutError) else error
        notes = getattr(its, "__notes__", [])
        if getattr(error, "may_have_run", False) or any("may have run" in note for note in notes):
            kinds.append("unsure")
        self.say(number, **{"is": kinds, "text": str(error), **fields})

    async def call(self, number, words):
        client, key = self.client, words.get("key", "k")
        calls = {
            "start": lambda: client.countdown.start(key, count=60, token=words.get("token")),
            "done": lambda: client.once.done(key, "r", generation=1),
            "set": lambda: client.timer.set(key, "1s"),
            "ping": client.ping,
            "wrong": lambda: client.timer.set(key, 90),
            "missing": lambda: client.countdown.start(None),
            "raw": lambda: client.command(*words["words"]),
        }
        try:
            if words.get("is_cancelled"):
                asyncio.current_task().cancel()
            within = words.get("within_ms")
            async with asyncio.timeout(within and within / 1000):
                value = await calls[words["call"]]()
            decision = getattr(value, "decision", None)
            self.say(number, value=decision.value if decision else str(value))
        except (Exception, asyncio.CancelledError) as error:
            self.fail(number, error)

    async def follow(self, number, words):
        watch = self.client.watch(
            *words["patterns"], since=words.get("since"), snapshots=words.get("snapshots", True))
        self.watches[number] = (watch, asyncio.Semaphore(words.get("count", 1 << 30)))
        try:
            semaphore = self.watches[number][1]
            while True:
                await semaphore.acquire()
                event = await watch.next()
                if event is None:
                    break
                self.say(number, name=event.name, key=event.key, seq=event.seq, cursor=event.cursor)
            self.say(number, end=True)
        except Exception as error:
            self.fail(number, error, end=True)

    async def handle(self, words):
        number = words["id"]
        match words["do"]:
            case "open":
                timeout = words.get("timeout_ms")
                self.client = AsyncClient(timeout=timeout and timeout / 1000)
                self.say(number, timeout_ms=self.client.timeout * 1000)
            case "call":
                self.tasks[number] = asyncio.create_task(self.call(number, words))
            case "cancel":
                self.tasks[words["of"]].cancel()
                self.say(number)
            case "watch":
                self.tasks[number] = asyncio.create_task(self.follow(number, words))
            case "more":
                for _ in range(words["count"]):
                    self.watches[words["of"]][1].release()
                self.say(number)
            case "end":
                await self.watches[words["of"]][0].aclose()
                self.say(number)
            case "close":
                await self.client.aclose()
                self.say(number)

    async def run(self):
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            await self.handle(json.loads(line))
        # It ends by itself, so nothing of it goes on.
        if self.client:
            await self.client.aclose()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)


asyncio.run(Driver().run())
