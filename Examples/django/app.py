"""Rate limits, idempotent orders and a debounced job with Django, in one file.

    countdownd --socket ./countdownd.sock --state-directory ./state
    export COUNTDOWND_SOCKET=./countdownd.sock
    python app.py runserver
    python app.py worker
"""

import sys

from django.conf import settings
from django.core.management import execute_from_command_line
from django.http import HttpRequest, JsonResponse
from django.urls import path

from countdownd import Client, Worker, debounced
from countdownd.django import idempotent, rate_limit

orders: list[dict[str, object]] = []


@rate_limit(burst=10, rate="10/1m", fail="closed")
def search(request: HttpRequest) -> JsonResponse:
    return JsonResponse({"found": []})


@idempotent(name="orders", required=True)
def order(request: HttpRequest) -> JsonResponse:
    orders.append({"id": len(orders) + 1, "item": request.POST["item"]})
    return JsonResponse(orders[-1], status=201)


@debounced("reindex:{name}", quiet="2s", max_wait="30s")
def reindex(name: str) -> None:
    print("reindexed", name, flush=True)


def save(request: HttpRequest, name: str) -> JsonResponse:
    return JsonResponse({"calls": reindex(name).raw["calls"]}, status=202)


urlpatterns = [path("search", search), path("orders", order), path("documents/<name>", save)]
settings.configure(
    DEBUG=True, ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__,
    MIDDLEWARE=["countdownd.django.ErrorReplies"])

if __name__ == "__main__":
    if sys.argv[1:] == ["worker"]:
        Worker(Client(), reindex.jobs).run()
    else:
        execute_from_command_line(sys.argv)
