"""What a server does after its answer about topics, configs and transactions: both sides are looked at until
it is done on both."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.oracle.connection import pause
from tests.oracle.generator.knowledge import Request
from tests.oracle.generator.sides import Side
from tests.oracle.generator.unsettled import Unsettled

SETTLE_S = 6.0
"""How long, in seconds, both sides may take to come to rest."""
LOOK_S = 0.05
BROKER_RESOURCE = 4
_TOPICS = {
    "create_topics",
    "delete_topics",
    "create_partitions",
    "incremental_alter_configs",
    "alter_configs",
}
_TRANSACTIONS = {"init_producer_id", "end_txn"}


def rest(sides: tuple[Side, Side], asked: Request) -> None:
    """Wait until an answer has had its effects on both sides. Raises Unsettled."""
    if asked.api in _TRANSACTIONS and asked.fields.get("transactional_id"):
        _until(lambda: not any(side.has_transactions_under_way() for side in sides), sides, asked.api)
    if asked.api not in _TOPICS or asked.fields.get("validate_only"):
        return
    if any(each.get("resource_type") == BROKER_RESOURCE for each in asked.fields.get("resources", ())):
        _until(lambda: _are_equal([side.seen_broker_configs() for side in sides]), sides, asked.api)
    else:
        _until(lambda: _are_equal([side.seen_topics() for side in sides]), sides, asked.api)


def _are_equal(seen: list[object]) -> bool:
    return seen[0] == seen[1]


def _until(holds: Callable[[], bool], sides: tuple[Side, Side], api: str) -> None:
    """Wait until it holds twice, one after the other: Kafka hears of a change a little after its answer."""
    end, times = time.monotonic() + SETTLE_S, 0
    while times < 2:
        times = times + 1 if holds() else 0
        if time.monotonic() > end:
            for side in sides:
                seen = [side.seen_topics(), side.seen_broker_configs(), side.has_transactions_under_way()]
                side.steps.append({"does": f"does not come to rest after {api}", "answer": repr(seen)})
            raise Unsettled(api)
        pause(LOOK_S)
