"""What replies become."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Callable, TypeVar

from ._base import EPOCH, Page, View, moment

T = TypeVar("T")
V = TypeVar("V", bound=View)


def same(reply: Any) -> Any:
    return reply


def nothing(_: Any) -> None:
    return None


def at(reply: int) -> datetime:
    return moment(reply) or EPOCH


def or_none(parse: Callable[[Any], T]) -> Callable[[Any], T | None]:
    return lambda reply: None if reply is None else parse(reply)


def of_several(answer: Callable[[Any], V]) -> Callable[[Any], V]:
    """Reads an answer about one entity, or about several: with the view of the one that refuses."""

    def parse(reply: Any) -> V:
        if views := reply.get("views"):
            refused = (one for one in views if one["key"] == reply["refused_by"])
            reply = {**next(refused, views[0]), **reply}
        return answer(reply)

    return parse


def page_of(view: Callable[[Any], V]) -> Callable[[Any], Page[V]]:
    def parse(reply: Any) -> Page[V]:
        page: Page[V] = Page(view(one) for one in reply[1])
        page.cursor = int(reply[0])
        return page

    return parse
