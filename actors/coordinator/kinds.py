"""The kinds of groups that are served, and who answers a request that members of several kinds make.

A new kind is one folder that exports a `Kind`, and one entry of `KINDS`.
"""

from __future__ import annotations

from collections.abc import Mapping

from actors.coordinator.classic.kind import KIND as CLASSIC
from actors.coordinator.consumer.kind import KIND as CONSUMER
from actors.coordinator.ground.area import Handler
from actors.coordinator.ground.kind import Kind
from actors.coordinator.push.kind import KIND as PUSH

KINDS: tuple[Kind, ...] = (CLASSIC, CONSUMER, PUSH)


Handlers = Mapping[int, Mapping[str, Handler]]
"""API key -> name of a kind -> its handler."""


def handlers_of(kinds: tuple[Kind, ...]) -> Handlers:
    """Who answers the requests of groups. Where several kinds answer an API, the first of them is asked, for
    most requests are for its groups and new groups are its own; it hands on what is another's (`hand_on`)."""
    found: dict[int, dict[str, Handler]] = {}
    for kind in kinds:
        for area in kind.areas:
            for api_key, handler in area.handlers.items():
                found.setdefault(api_key, {})[kind.name] = handler
    return found
