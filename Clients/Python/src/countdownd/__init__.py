"""A client of countdownd: cooldowns, rate limits, idempotency keys, timers and their events.

    from countdownd import Client

    client = Client()
    answer = client.countdown.start("+4512345678", policy="login")
    if answer.refused:
        print("try again in", answer.retry_after)
    elif answer.accepted:
        send_code()
"""

from ._async.client import AsyncClient, AsyncConnected
from ._async.watch import AsyncWatch
from ._async.worker import AsyncWorker
from ._base import Answer, Data, Decision, Duration, Moment, Page, Rate, View
from ._daemon import embedded
from ._decorators import Mismatch, Running, TooMany, debounced, idempotent, seconds, throttled
from ._events import Event
from ._failures import Closed, CountdowndError, Down
from ._sync.client import Client, Connected
from ._sync.watch import Watch
from ._sync.worker import Worker
from . import _views
from ._views import *  # noqa: F403
from ._views import __version__ as __version__

__all__ = [
    "Answer", "AsyncClient", "AsyncConnected", "AsyncWatch", "AsyncWorker", "Client", "Closed",
    "Connected",
    "CountdowndError", "Data", "Decision", "Down", "Duration", "Event", "Mismatch", "Moment",
    "Page", "Rate", "Running", "TooMany", "View", "Watch", "Worker", "debounced", "embedded", "idempotent",
    "seconds", "throttled",
]  # fmt: skip
__all__ += _views.__all__
