"""What is told of partitions that come and go: only what is so."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from actors.ground.upstream_goal import ATTACHED, LEAVING
from actors.upstream.given import GivenLog
from actors.upstream.moving import Moving, Seen
from actors.upstream.orders import FOLLOWED, RELEASE, RETAKE, RETAKEN, SEALED, SERVED, Order, Standing
from actors.upstream.partitions import RaftLeader
from actors.upstream.reports import GivenBack, NotLeaving, Taken
from actors.upstream.requests import AlterPartition, PartitionErrors
from tests.simulation.upstream.kraft import Broker, State

TOPIC_ID = bytes(range(16))
TIER = (11, 12, 13)
BROKERS = {each: Broker(each, fenced=False) for each in (1, 2, *TIER)}
END = 5_000
OURS = State(TIER, TIER, leader=11, partition_epoch=6)
CHANGES_HANDS = State(
    (*TIER, 1, 2), TIER, removing_replicas=TIER, adding_replicas=(1, 2), leader=11, partition_epoch=7
)
LED_BY_A_BROKER = State((1, 2), (1, 2), leader=1, leader_epoch=1, partition_epoch=8)


ADDRESSES = {each: ("host", 9_000 + each) for each in (1, 2)}


def seen(state: State, offset: int) -> Seen:
    leaders = {0: RaftLeader(11, 3, TIER)}
    return Seen(LEAVING, offset, TOPIC_ID, {0: state}, BROKERS, ADDRESSES, leaders, 1, frozenset(TIER))


def changing_hands() -> tuple[Moving, AlterPartition]:
    """Return the moving of a sealed partition that brokers have all of, and what it asks for then."""
    moving = Moving()
    moving.turn(seen(CHANGES_HANDS, 10), 0)
    (ask,) = moving.asks(0)
    moving.told(ask, Standing(SERVED))
    moving.turn(seen(CHANGES_HANDS, 10), 0)
    (ask,) = moving.asks(20_000)
    moving.told(ask, Standing(SEALED))
    moving.given(11, {0: GivenLog(0, END, True, {1: (1, END), 2: (2, END)})}, 10)
    assert moving.turn(seen(CHANGES_HANDS, 10), 20_005).requests == (), "it is not noted yet that they have"
    (ask,) = moving.asks(20_005)
    assert ask.order == Order(RELEASE, TOPIC_ID, led_epoch=CHANGES_HANDS.leader_epoch)
    moving.told(ask, Standing(SEALED, released_epoch=CHANGES_HANDS.leader_epoch))
    (request,) = moving.turn(seen(CHANGES_HANDS, 10), 20_010).requests
    assert isinstance(request, AlterPartition)
    return moving, request


def test_a_leader_that_leads_no_more_by_what_it_has_asked_for_was_not_refused() -> None:
    moving, request = changing_hands()
    errors = {(TOPIC_ID, 0): ErrorCode.new_leader_elected}
    moving.answered(request, PartitionErrors(ErrorCode.none, errors), 20_020)
    assert moving.turn(seen(CHANGES_HANDS, 10), 20_030).reports == ()


def test_a_partition_that_brokers_lead_because_it_was_given_back_is_not_lost_to_them() -> None:
    moving, _ = changing_hands()
    assert moving.served == frozenset()
    moving.turn(seen(LED_BY_A_BROKER, 11), 20_040)
    assert moving.served == frozenset()


def test_a_sealed_partition_that_a_broker_was_made_to_lead_is_not_told_as_given_back() -> None:
    moving, _ = changing_hands()
    state = LED_BY_A_BROKER._replace(leader_epoch=2)
    for phase, now_ms in ((SEALED, 40_000), (RETAKEN, 41_000)):
        moving.turn(seen(state, 11), now_ms)
        (ask,) = moving.asks(now_ms)
        assert ask.order.order == RETAKE
        moving.told(ask, Standing(phase))
    assert GivenBack("__consumer_offsets", 0) not in moving.turn(seen(state, 11), 41_010).reports


def test_one_that_never_changes_hands_stays() -> None:
    moving, _ = changing_hands()
    assert NotLeaving("__consumer_offsets", 0) in moving.turn(seen(CHANGES_HANDS, 10), 26_000).reports


def test_what_was_served_before_the_controllers_leader_began_is_not_told_as_news() -> None:
    moving = Moving()
    moving.turn(seen(OURS, 10), 0)
    (ask,) = moving.asks(0)
    moving.told(ask, Standing(SERVED))
    assert moving.served == frozenset({0})
    assert moving.turn(seen(OURS, 10), 10).reports == ()


def test_what_a_new_leader_of_the_controller_finds_sealed_and_is_to_stay_is_cared_for() -> None:
    """Brokers leave its replicas by that alone, and nobody serves it before they have left."""
    moving, stays = Moving(), seen(CHANGES_HANDS, 10)._replace(goal=ATTACHED)
    moving.turn(stays, 0)
    (ask,) = moving.asks(0)
    moving.told(ask, Standing(SEALED))
    assert moving.turn(stays, 10).reports == ()
    assert moving.served == frozenset({0})


def test_what_is_served_now_is_told() -> None:
    moving = Moving()
    for phase, now_ms in ((FOLLOWED, 0), (SERVED, 20_000)):
        moving.turn(seen(OURS, 10), now_ms)
        (ask,) = moving.asks(now_ms)
        moving.told(ask, Standing(phase, END, records=9))
    assert Taken("__consumer_offsets", 0, END, 9) in moving.turn(seen(OURS, 10), 20_010).reports
