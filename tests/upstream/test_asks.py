"""When leaders of partitions are told what they are to do."""

from __future__ import annotations

from actors.upstream.asks import EVERY_MS, UNANSWERED_MS, Asks
from actors.upstream.efforts import PAUSE_MAX_MS, PAUSE_MS, STALLED_MS, Effort
from actors.upstream.orders import FOLLOW, FOLLOWED, LOOK, NOTHING, Order, Source, Standing
from actors.upstream.partitions import RaftLeader

TIER = (11, 12, 13)
FIRST, SECOND = RaftLeader(11, 1, TIER), RaftLeader(12, 2, TIER)
FOLLOWS = Order(FOLLOW, b"\1" * 16, Source(1, "host", 9092, 0), ((11, 100),))


def test_an_order_is_repeated_and_a_new_one_goes_out_at_once() -> None:
    asks = Asks()
    (ask,) = asks.due({0: Order(LOOK)}, {0: FIRST}, 0)
    assert asks.due({0: FOLLOWS}, {0: FIRST}, 5_000) == (), "an answer is out"
    asks.told(ask, Standing())
    (ask,) = asks.due({0: FOLLOWS}, {0: FIRST}, 5_000)
    asks.told(ask, Standing(FOLLOWED))
    assert asks.due({0: FOLLOWS}, {0: FIRST}, 4_999 + EVERY_MS[FOLLOW]) == ()
    assert asks.due({0: FOLLOWS}, {0: FIRST}, 5_000 + EVERY_MS[FOLLOW]) == (ask,)


def test_a_new_leader_is_told_though_the_old_one_has_not_answered() -> None:
    asks = Asks()
    (to_the_old,) = asks.due({0: FOLLOWS}, {0: FIRST}, 0)
    (to_the_new,) = asks.due({0: FOLLOWS}, {0: SECOND}, 1)
    assert to_the_new.term == SECOND.term
    asks.told(to_the_new, Standing(FOLLOWED, 7))
    asks.told(to_the_old, Standing(FOLLOWED, 5))
    assert asks.last(0) == Standing(FOLLOWED, 7), "the newer leader knows better"
    assert asks.is_known(0, SECOND)
    assert not asks.is_known(0, FIRST)


def test_silence_says_nothing() -> None:
    asks = Asks()
    for answer in (None, Standing(NOTHING, leads=False)):
        (ask,) = asks.due({0: Order(LOOK)}, {0: FIRST}, 0 if answer is None else UNANSWERED_MS)
        asks.told(ask, answer)
        assert not asks.is_known(0, FIRST)
    assert asks.due({0: Order(LOOK)}, {0: FIRST}, 2 * UNANSWERED_MS) == (ask,), "it is asked again soon"


def test_what_does_not_get_on_is_given_up_and_tried_again_later_and_later() -> None:
    effort = Effort()
    now_ms = 0
    for tries in range(10):
        assert effort.is_due(now_ms)
        assert not effort.joins("the beginning", now_ms)
        assert not effort.joins("further", now_ms + STALLED_MS), "it gets on"
        assert effort.joins("further", now_ms + 2 * STALLED_MS)
        assert effort.is_given_up
        assert not effort.joins("further", now_ms + 3 * STALLED_MS), "that is told once"
        now_ms += 3 * STALLED_MS
        effort.is_out(now_ms)
        assert not effort.is_given_up
        pause_ms = min(PAUSE_MS << tries, PAUSE_MAX_MS)
        assert not effort.is_due(now_ms + pause_ms - 1)
        now_ms += pause_ms
