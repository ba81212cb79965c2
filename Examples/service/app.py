"""Codes, rate limits, idempotent orders, a debounced reindex and reminders. countdownd decides."""
import hmac
import secrets
import threading
import uuid
from collections.abc import Callable
from datetime import timedelta

from fastapi import Depends, FastAPI, HTTPException
from pydantic import BaseModel

from countdownd import Client, Event, NotFound, Stale, Worker, seconds
from countdownd.fastapi import Idempotent, RateLimit, install

daemon = Client()
per_ip = RateLimit(named=["minute", "hour"])
app = FastAPI(dependencies=[Depends(per_ip)])
install(app)
codes: dict[str, tuple[int, str]] = {}  # phone: (generation, code)
noting = threading.Lock()
orders: list[dict[str, object]] = []


class Phone(BaseModel):
    phone: str
    token: str | None = None


class Guess(Phone):
    code: str


class Order(BaseModel):
    item: str


def milliseconds(time: timedelta) -> int:
    return round(time.total_seconds() * 1000)


def note(phone: str, generation: int, code: str) -> bool:
    """Notes a send; False if it was noted before, by a request with the same token."""
    with noting:
        is_new = codes.get(phone, (0, ""))[0] < generation
        if is_new:
            codes[phone] = generation, code
        return is_new


def send_sms(phone: str, code: str) -> None:
    if phone.endswith("0000"):
        raise OSError("no such number")


@app.post("/code")
def send_code(body: Phone) -> dict[str, object]:
    key = f"code:{body.phone}"
    answer = daemon.countdown.start(key, policy="code", token=body.token)
    if answer.refused:
        wait = {"message": f"Please wait ({answer.reason}).", "wait_ms": milliseconds(answer.retry_after)}
        raise HTTPException(429, wait, {"Retry-After": str(seconds(answer.retry_after))})
    code = f"{secrets.randbelow(1_000_000):06}"
    if note(body.phone, answer.generation, code):
        try:
            send_sms(body.phone, code)
        except OSError:
            try:
                daemon.countdown.refund(key, generation=answer.generation)
            except Stale:
                pass  # A newer code was sent.
            raise HTTPException(502, {"message": "We cannot reach this number."})
    return {"wait_ms": milliseconds(answer.retry_after), "left": answer.sends_left}


@app.post("/verify")
def verify(body: Guess) -> dict[str, object]:
    key = f"code:{body.phone}"
    generation, right = codes.get(body.phone, (0, ""))
    try:
        attempt = daemon.countdown.attempt(key, generation=generation)
        if attempt.refused:
            raise HTTPException(403, {"reason": attempt.reason})
        if not hmac.compare_digest(body.code.encode(), right.encode()):
            raise HTTPException(403, {"reason": "wrong", "left": attempt.attempts_left})
        passed = daemon.countdown.pass_(key, generation=generation)
    except (NotFound, Stale):
        raise HTTPException(403, {"reason": "no code"})
    if passed.accepted:
        return {"ok": True}
    raise HTTPException(403, {"reason": passed.reason})


once = Idempotent(name="orders", required=True)


@app.post("/orders", status_code=201, dependencies=[Depends(once)])
def create_order(order: Order) -> object:
    if order.item == "crash":
        raise RuntimeError("payment failed")
    orders.append({"id": len(orders) + 1, "item": order.item})
    return orders[-1]


@app.post("/documents/{name}", status_code=202)
def save(name: str) -> dict[str, object]:
    return {"calls": daemon.debounce.call("reindex", "2s", max_wait="30s", payload=name).calls}


@app.post("/reminders", status_code=202)
def remind(body: Phone) -> dict[str, object]:
    name = f"reminder:{uuid.uuid4()}"
    daemon.timer.set(name, "15m", payload=body.model_dump_json(include={"phone"}))
    return {"id": name}


def worker(reindex: Callable[[Event], object], reminder: Callable[[Event], object]) -> Worker:
    """Runs what is due, also what was while none ran. Of several, one runs each job."""
    return Worker(Client(), {"debounce:reindex": reindex, "timer:reminder:*": reminder})
