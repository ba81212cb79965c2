"""A login with a code by SMS. countdownd decides how often one may be sent and tried."""

import hmac
import os
import pathlib
import re
import secrets
import threading

import redis
from flask import Flask, abort, request, send_file

SOCKET = os.environ.get("COUNTDOWND_SOCKET", "/run/countdownd/countdownd.sock")
PAGE = pathlib.Path(__file__).resolve().parent.parent / "page.html"

app = Flask(__name__)
daemon = redis.Redis(
    unix_socket_path=SOCKET, protocol=3, decode_responses=True, socket_timeout=2
)

# phone: (generation of the send, its code). A table in a database where there are several servers.
codes = {}
noting = threading.Lock()


WAIT = "A code was sent a short while ago. Wait before you ask for another one."
BUSY = "Too many codes were asked for. Try again later, or sign in by mail."
REFUSALS = {"limit": BUSY, "blocked": BUSY}


class ProviderError(Exception):
    pass


def send_sms(phone, text):
    """Stands for the SMS gateway."""
    if phone.endswith("0000"):
        raise ProviderError("this number cannot be reached")
    print(f"{phone} {text}", flush=True)


@app.get("/")
def page():
    return send_file(PAGE)


@app.get("/status")
def status():
    return button(countdown("GET", key(request.args.get("phone"))))


@app.post("/send")
def send():
    phone, token = fields("phone", "token")
    # Behind a proxy: the address that the proxy saw, which the client cannot choose.
    limit = f"ip:{request.remote_addr}"
    answer = countdown("START", key(phone), "POLICY", "login", "LIMIT", limit, "TOKEN", token)
    if not answer["accepted"]:
        message = REFUSALS.get(answer["reason"], WAIT)
        return {"ok": False, "message": message, "button": button(answer)}, 429
    sent = {"ok": True, "message": "We sent you a code.", "button": button(answer)}
    # The same press came twice, or redis-py asked again as a reply was lost: who notes it sends it.
    code = f"{secrets.randbelow(1_000_000):06}"
    with noting:
        if phone in codes and codes[phone][0] >= answer["generation"]:
            return sent
        codes[phone] = answer["generation"], code
    try:
        send_sms(phone, code)
    except ProviderError:
        try:
            answer = countdown("REFUND", key(phone), "GENERATION", answer["generation"])
        except redis.ResponseError:  # STALE: sending took so long that a newer code was sent
            answer = countdown("GET", key(phone))
        message = "The code could not be sent. Check the number and try again."
        return {"ok": False, "message": message, "button": button(answer)}, 502
    return sent


@app.post("/verify")
def verify():
    phone, code = fields("phone", "code")
    name = key(phone)
    # Count the attempt before comparing the code, so that guessing is limited.
    try:
        generation, right = codes[phone]
        token = secrets.token_hex(8)  # for a retry by redis-py, which must not count again
        attempt = countdown("ATTEMPT", name, "GENERATION", generation, "TOKEN", token)
    except KeyError:
        return refused("expired")
    except redis.ResponseError as error:
        if str(error).startswith(("NOTFOUND", "STALE")):  # no such code, or a newer one
            return refused("expired")
        raise
    if not attempt["accepted"]:
        return refused(attempt["reason"])
    if not hmac.compare_digest(code.encode(), right.encode()):
        return refused("wrong", f"The code is wrong. Attempts left: {attempt['attempts_left']}.")
    # If two requests with the right code come at once, PASS accepts one of them.
    passed = countdown("PASS", name, "GENERATION", generation)
    if passed["reason"]:  # repeated, or expired since the attempt
        return refused("expired" if passed["reason"] == "expired" else "passed")
    return {"ok": True, "message": "You are signed in."}  # and here the session begins


def refused(reason, message="This code is no longer valid. Ask for a new one."):
    return {"ok": False, "reason": reason, "message": message}, 403


@app.errorhandler(redis.RedisError)
def daemon_failed(error):
    """It is down, it is starting, or it does not have the policy: the log says which."""
    app.logger.error("countdownd at %s: %s", SOCKET, error)
    return {"message": "Signing in is not possible right now. Try again in a moment."}, 503


@app.errorhandler(400)
def bad_request(error):
    return {"message": error.description}, 400


def countdown(*words):
    return daemon.execute_command("COUNTDOWN", *words)


def key(phone):
    if not re.fullmatch(r"\+[0-9]{6,15}", phone or ""):
        abort(400, "A phone number is + and 6 to 15 digits.")
    return f"login:{phone}"


def fields(*names):
    body = request.get_json()
    values = [body.get(name) if isinstance(body, dict) else None for name in names]
    if not all(isinstance(value, str) and 0 < len(value) <= 64 for value in values):
        abort(400, f"Missing: {' and '.join(names)}, of 1 to 64 characters each.")
    return values


def button(view):
    """What the page needs of a view; nothing has been sent where there is none."""
    view = view or {"state": "ready", "remaining": 0, "remaining_ms": 0, "every_ms": 1000}
    return {
        "state": view["state"],
        "title": view.get("title"),
        "remaining": view["remaining"],
        "remaining_ms": view["remaining_ms"],
        "step_ms": view["every_ms"],
    }
