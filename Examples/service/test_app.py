import threading

from countdownd.testing import eventually


def code(web, phone="+45", **more):
    return web.post("/code", json={"phone": phone, **more})


def test_ladder(web, countdownd):
    assert code(web).json()["wait_ms"] == 30_000
    countdownd.advance("29s")
    answer = code(web)
    assert answer.status_code == 429 and answer.headers["retry-after"] == "1"
    countdownd.advance("1s")
    assert code(web).json()["wait_ms"] == 60_000


def test_five_an_hour(web, countdownd):
    for wait in ["30s", "60s", "60s", "60s", "60s"]:
        assert code(web).status_code == 200
        countdownd.advance(wait)
    assert code(web).status_code == 429
    countdownd.advance("55m29s")
    assert code(web).status_code == 429
    countdownd.advance("1s")
    assert code(web).status_code == 200


def test_token(web):
    assert code(web, token="t").status_code == 200
    assert code(web, token="t").status_code == 200
    assert code(web).status_code == 429


def test_refund(web):
    assert code(web, "+0000").status_code == 502
    assert code(web, "+0000").status_code == 502


def test_three_attempts(web, countdownd):
    import app

    code(web)
    for left in (2, 1, 0):
        answer = web.post("/verify", json={"phone": "+45", "code": "x"})
        assert answer.json()["detail"] == {"reason": "wrong", "left": left}
    answer = web.post("/verify", json={"phone": "+45", "code": app.codes["+45"][1]})
    assert answer.json()["detail"]["reason"] == "locked"


def test_verify(web, countdownd):
    import app

    code(web)
    guess = {"phone": "+45", "code": app.codes["+45"][1]}
    countdownd.advance("4m59s")
    assert web.post("/verify", json=guess).status_code == 200
    assert web.post("/verify", json=guess).json()["detail"]["reason"] == "passed"


def test_expired(web, countdownd):
    import app

    code(web)
    guess = {"phone": "+45", "code": app.codes["+45"][1]}
    countdownd.advance("5m")
    assert web.post("/verify", json=guess).json()["detail"]["reason"] == "expired"


def test_unknown_phone(web):
    assert web.post("/verify", json={"phone": "+99", "code": "1"}).status_code == 403


def test_ip(web, countdownd):
    for _ in range(10):
        assert web.post("/documents/a").status_code == 202
    assert web.post("/documents/a").headers["retry-after"] == "6"
    countdownd.advance("6s")
    assert web.post("/documents/a").status_code == 202


def order(web, key, item="tea"):
    return web.post("/orders", json={"item": item}, headers={"Idempotency-Key": key})


def test_orders(web, countdownd):
    import app

    assert order(web, "a").json() == order(web, "a").json() == {"id": 1, "item": "tea"}
    assert order(web, "a", "coffee").status_code == 422
    assert order(web, "b", "crash").status_code == 500
    assert order(web, "b").status_code == 201
    assert len(app.orders) == 2
    countdownd.advance("24h")
    assert order(web, "a").json()["id"] == 3


def test_running_order(web, countdownd):
    countdownd.client.once.begin("request:orders::a", ttl="24h")
    assert order(web, "a").status_code == 409


def test_reindex(web, countdownd, workers):
    seen = []
    worker = workers(reindex=seen.append)
    for name in "abc":
        web.post(f"/documents/{name}")
        countdownd.advance("1.9s")
    countdownd.settle()
    assert seen == []
    countdownd.advance("100ms")
    countdownd.settle()
    assert [(event["calls"], event["payload"]) for event in seen] == [(3, "c")]


def test_one_of_two_workers(web, countdownd, workers):
    seen = []
    pair = [workers(reminder=lambda event, n=n: seen.append(n)) for n in range(2)]
    for _ in range(5):
        web.post("/reminders", json={"phone": "+45"})
    countdownd.advance("14m59s")
    countdownd.settle()
    assert seen == []
    countdownd.advance("1s")
    countdownd.settle()
    assert len(seen) == 5


def test_missed_while_away(web, countdownd, workers):
    seen = []
    worker = workers(reminder=seen.append)
    worker.stop()
    web.post("/reminders", json={"phone": "+45"})
    countdownd.advance("15m")
    workers(reminder=seen.append)
    countdownd.settle()
    assert len(seen) == 1


def test_restart(web, countdownd, workers):
    seen = []
    worker = workers(reminder=seen.append)
    web.post("/reminders", json={"phone": "+45"})
    countdownd.restart("20m")
    countdownd.settle()
    assert len(seen) == 1


def test_daemon_is_down(web, countdownd):
    countdownd.stop()
    assert code(web).status_code == 503


def test_a_worker_dies(web, countdownd, workers):
    began, seen, gate = [], [], threading.Event()

    def run(n):
        def handler(event):
            began.append(n)
            if len(began) == 1:
                gate.wait(5)
                raise SystemExit  # the thread dies
            seen.append(n)

        return handler

    pair = [workers(reminder=run(n)) for n in range(2)]
    web.post("/reminders", json={"phone": "+45"})
    countdownd.advance("15m")
    eventually(lambda: began and pair[1 - began[0]].elsewhere)
    gate.set()
    eventually(lambda: seen)
    assert seen == [1 - began[0]]
