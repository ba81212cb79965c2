import pytest

app = pytest.importorskip("app", reason="Django is not installed", exc_type=ImportError)


@pytest.fixture
def web(countdownd):
    import django
    from django.test import Client

    django.setup()
    app.orders.clear()
    return Client()


def test_searches_are_limited(web, countdownd):
    for left in range(10)[::-1]:
        assert web.get("/search")["RateLimit"] == f'"default";r={left};t={60 - 6 * left}'
    refused = web.get("/search")
    assert (refused.status_code, refused["Retry-After"]) == (429, "6")
    countdownd.advance("6s")
    assert web.get("/search").status_code == 200
    countdownd.stop()
    assert web.get("/search").status_code == 503


def test_an_order_is_placed_once(web, countdownd):
    def order(item, key="a"):
        return web.post("/orders", {"item": item}, headers={"Idempotency-Key": key})

    assert order("tea").json() == order("tea").json() == {"id": 1, "item": "tea"}
    assert order("coffee").status_code == 422
    countdownd.client.once.begin("request:orders::b", ttl="24h")
    assert order("tea", "b").status_code == 409
    assert web.post("/orders", {"item": "tea"}).status_code == 400
    assert len(app.orders) == 1


def test_a_document_is_reindexed_when_nobody_saves_it(web, countdownd, run_worker, monkeypatch):
    seen = []
    monkeypatch.setattr(app.reindex, "function", seen.append)
    run_worker(app.Worker(app.Client(), app.reindex.jobs))
    for calls in (1, 2, 3):
        assert web.post("/documents/a").json() == {"calls": calls}
        countdownd.advance("1.9s")
    countdownd.settle()
    assert seen == []
    countdownd.advance("100ms")
    countdownd.settle()
    assert seen == ["a"]
