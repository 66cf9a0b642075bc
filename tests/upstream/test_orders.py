"""Orders and their answers travel as bytes; what another release makes of them is refused in words."""

from __future__ import annotations

import msgpack
import pytest

from actors.upstream.orders import (
    DROP,
    FOLLOW,
    SERVED,
    Order,
    OrderUnreadable,
    Source,
    Standing,
    unpack_order,
    unpack_standing,
)

FOLLOWING = Order(FOLLOW, b"the log's topic.", Source(1, "broker-1", 9092, 7), ((1001, 12), (1002, 14)))


def test_an_order_is_read_as_it_was_given() -> None:
    for order in (FOLLOWING, Order(DROP)):
        assert unpack_order(order.pack()) == order


def test_an_answer_is_read_as_it_was_given() -> None:
    for standing in (Standing(SERVED, 17, True, 12, "not now", True, 4), Standing(leads=False)):
        assert unpack_standing(standing.pack()) == standing


@pytest.mark.parametrize(
    "packed",
    [b"", b"\xc1", msgpack.packb(7), msgpack.packb(["dance"]), msgpack.packb([FOLLOW, b"", [1]])],
)
def test_what_is_no_order_is_refused(packed: bytes) -> None:
    with pytest.raises(OrderUnreadable):
        unpack_order(packed)


@pytest.mark.parametrize("packed", [b"", msgpack.packb(["dancing"]), msgpack.packb([SERVED] * 9)])
def test_what_is_no_answer_is_refused(packed: bytes) -> None:
    with pytest.raises(OrderUnreadable):
        unpack_standing(packed)
