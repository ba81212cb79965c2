"""A login with a code by SMS. How often one may be sent and tried is countdownd's to say."""

import hmac
import os
import pathlib
import re
import secrets

import redis
from flask import Flask, abort, request, send_file

SOCKET = os.environ.get("COUNTDOWND_SOCKET", "/run/countdownd/countdownd.sock")
PAGE = pathlib.Path(__file__).resolve().parent.parent / "page.html"

app = Flask(__name__)
daemon = redis.Redis(unix_socket_path=SOCKET, protocol=3, decode_responses=True)

# phone: (generation of the send, its code). A table in a database where there are several servers.
codes = {}


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
    answer = countdown("START", key(phone), "POLICY", "login", "TOKEN", token)
    if not answer["accepted"]:
        return {"message": "请稍后再试", "button": button(answer)}, 429
    if answer["reason"] == "duplicate":  # sent already, by the same press
        return {"message": "验证码已发送", "button": button(answer)}
    code = f"{secrets.randbelow(1_000_000):06}"
    codes[phone] = answer["generation"], code
    try:
        send_sms(phone, code)
    except ProviderError:
        try:
            answer = countdown("REFUND", key(phone), "GENERATION", answer["generation"])
        except redis.ResponseError:  # STALE: it took so long that a newer one was sent
            answer = countdown("GET", key(phone))
        return {"message": "发送失败,请重试", "button": button(answer)}, 502
    return {"message": "验证码已发送", "button": button(answer)}


@app.post("/verify")
def verify():
    phone, code = fields("phone", "code")
    name = key(phone)
    # First ask, then look: who guesses runs out of attempts, whatever the answers are.
    try:
        generation, right = codes[phone]
        attempt = countdown("ATTEMPT", name, "GENERATION", generation)
    except (KeyError, redis.ResponseError):  # NOTFOUND, STALE: no such code, or not any more
        return {"ok": False, "reason": "expired", "message": "验证码已失效"}, 403
    if not attempt["accepted"]:
        return {"ok": False, "reason": attempt["reason"], "message": "验证码已失效"}, 403
    if not hmac.compare_digest(code.encode(), right.encode()):
        left = attempt["attempts_left"]
        return {"ok": False, "reason": "wrong", "message": f"验证码错误,还可尝试 {left} 次"}, 403
    # PASS is true for one request only, should two with the right code come at once.
    passed = countdown("PASS", name, "GENERATION", generation)
    if passed["reason"]:  # duplicate, or expired since the attempt
        reason = "expired" if passed["reason"] == "expired" else "passed"
        return {"ok": False, "reason": reason, "message": "验证码已失效"}, 403
    return {"ok": True, "message": "登录成功"}  # and here the session begins


def countdown(*words):
    return daemon.execute_command("COUNTDOWN", *words)


def key(phone):
    if not re.fullmatch(r"\+[0-9]{6,15}", phone or ""):
        abort(400, "a phone number is + and 6 to 15 digits")
    return f"login:{phone}"


def fields(*names):
    body = request.get_json()
    values = [body.get(name) if isinstance(body, dict) else None for name in names]
    if not all(isinstance(value, str) and 0 < len(value) <= 64 for value in values):
        abort(400, f"missing: {' and '.join(names)}, of 1 to 64 characters each")
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
