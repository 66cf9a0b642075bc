"""Who computes, what it is handed, and what of its result is believed (A7, A9 to A11)."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from actors.coordinator.consumer import handing_out
from actors.coordinator.consumer.explain import explain
from actors.coordinator.told.consumer_events import AssignmentComputed, AssignmentRefused
from actors.protocol.client_assignor_messages import INVALID_ASSIGNMENT, ClientSide, InstallAssignmentResponse
from tests.coordinator.consumer.client_assignors.computing import (
    Computing,
    Shares,
    assignor,
    driver,
    in_turn,
    installed,
    settle,
)
from tests.coordinator.consumer.driver import GROUP, Driver, owned, topic_id

ORDERS = topic_id("orders")


def says(tier: Driver) -> str:
    return explain(tier.state, GROUP, tier.now_ms).says


def refusals(tier: Driver) -> list[tuple[str | None, str]]:
    return [(each.member_id, each.cause) for each in tier.events if isinstance(each, AssignmentRefused)]


def pair() -> tuple[Driver, Computing, Computing]:
    """Make a group of two that is to be assigned by the first."""
    tier = driver()
    first = Computing(tier, "m1").join()
    second = Computing(tier, "m2").join()
    assert (first.is_asked, second.is_asked) == (True, False)
    return tier, first, second


def test_a11_the_members_of_a_group_assign_it() -> None:
    tier, first, second = pair()
    settle(first, second)
    assert first.partitions | second.partitions == {(ORDERS, number) for number in range(4)}
    assert not first.partitions & second.partitions
    [*_, assigned] = [each for each in tier.events if isinstance(each, AssignmentComputed)]
    assert (assigned.assignor, assigned.member_id) == ("sticky", "m1")
    assert tier.group().assignment_epoch == tier.group().group_epoch


def test_a9_the_group_is_handed_out_at_its_epoch() -> None:
    tier, first, second = pair()
    second.beat(client_assignors=(assignor(reason=3, metadata=b"two"),))
    prepared = first.prepare()
    assert (prepared.error_code, prepared.group_epoch, prepared.assignor) == (
        0,
        tier.group().group_epoch,
        "sticky",
    )
    assert [(each.member_id, each.reason, each.metadata) for each in prepared.members] == [
        ("m1", 0, b""),
        ("m2", 3, b"two"),
    ]
    [topic] = prepared.topics
    assert topic == (ORDERS, "orders", 4, ())


@pytest.mark.parametrize(
    ("other", "error"),
    [
        ({"group_id": "none"}, ErrorCode.group_id_not_found),
        ({"member_id": "none"}, ErrorCode.unknown_member_id),
        ({"member_epoch": 77}, ErrorCode.stale_member_epoch),
        ({"member_id": "m2", "member_epoch": 77}, ErrorCode.stale_member_epoch),
        ({"member_id": "m2"}, ErrorCode.unknown_member_id),
    ],
    ids=["group", "member", "epoch", "epoch before choice", "not chosen"],
)
def test_a9_a10_who_may_not_compute_is_told_in_the_documents_order(
    other: dict[str, Any], error: ErrorCode
) -> None:
    _, first, _ = pair()
    prepared = first.prepare()
    assert first.prepare(**other).error_code == error
    assert first.install(prepared.group_epoch, in_turn(prepared), **other).error_code == error
    assert first.install(prepared.group_epoch, in_turn(prepared)) == InstallAssignmentResponse(0)


@pytest.mark.parametrize(
    ("shares", "said"),
    [
        ({"m1": {ORDERS: (0, 4)}}, "has 4 partitions, and no partition 4"),
        ({"m1": {ORDERS: (-1,)}}, "has 4 partitions, and no partition -1"),
        ({"m1": {ORDERS: (0, 1)}, "m2": {ORDERS: (1,)}}, "is given to m1 and to m2"),
        ({"m1": {ORDERS: (1, 1)}}, "has a partition twice for m1"),
        ({"m1": {topic_id("nowhere"): (0,)}}, "was not handed out"),
        ({"m1": {topic_id("bills"): (0,)}}, "m1 does not subscribe to topic"),
        ({"stranger": {ORDERS: (0,)}}, "stranger is no member"),
    ],
)
def test_a10_what_does_not_fit_is_refused_by_name_and_the_next_is_asked(shares: Shares, said: str) -> None:
    tier = driver(orders=4, bills=2)
    first = Computing(tier, "m1", "orders").join()
    second = Computing(tier, "m2", "orders", "bills").join()
    prepared = first.prepare()
    before = tier.group().assignment_epoch
    answer = first.install(prepared.group_epoch, shares)
    assert answer.error_code == INVALID_ASSIGNMENT
    assert said in (answer.error_message or "")
    assert tier.group().assignment_epoch == before
    assert [who for who, _ in refusals(tier)] == ["m1"]
    assert second.beat().answer is not None
    assert second.is_asked
    settle(first, second)


def test_a10_a_member_or_topic_that_is_named_twice_is_refused() -> None:
    _, first, _ = pair()
    prepared = first.prepare()
    [one, two] = installed(in_turn(prepared))
    answer = first.install(prepared.group_epoch, {}, members=(one, two, one))
    assert answer.error_message == "m1 is named twice"


@pytest.mark.parametrize("epoch", [-1, 1, 99])
def test_a10_a_result_for_another_epoch_is_refused(epoch: int) -> None:
    _, first, _ = pair()
    prepared = first.prepare()
    assert first.install(epoch, in_turn(prepared)).error_code == INVALID_ASSIGNMENT


def test_a10_a_result_that_nothing_was_handed_out_for_is_refused() -> None:
    tier, first, _ = pair()
    assert first.install(tier.group().group_epoch, {}).error_code == INVALID_ASSIGNMENT


def test_a10_a_result_comes_once() -> None:
    _, first, second = pair()
    prepared = first.prepare()
    assert first.install(prepared.group_epoch, in_turn(prepared)).error_code == 0
    assert first.install(prepared.group_epoch, in_turn(prepared)).error_code == ErrorCode.unknown_member_id
    settle(first, second)


def test_a11_a_result_is_installed_though_the_group_has_gone_on_and_the_next_begins_at_once() -> None:
    settings = driver().settings._replace(group_consumer_assignment_interval_ms=5_000)
    tier = driver(settings._replace(group_rebalance_batch_max_ms=0))
    first = Computing(tier, "m1").join()
    prepared = first.prepare()
    second = Computing(tier, "m2").join()
    third = Computing(tier, "m3").join()
    third.leave()
    assert tier.group().group_epoch == prepared.group_epoch + 3
    assert first.install(prepared.group_epoch, in_turn(prepared)).error_code == 0
    assert tier.group().assignment_epoch == prepared.group_epoch
    second.beat()
    assert second.is_asked, "nobody waits for the assignment interval"
    settle(first, second)
    assert len(first.partitions) == len(second.partitions) == 2


def test_a11_a_silent_member_is_followed_by_the_next_and_in_the_end_by_the_server() -> None:
    tier, first, second = pair()
    tier.advance(9_000)
    second.beat()
    assert not second.is_asked, "the first has a second left"
    tier.advance(2_000)
    first.beat()
    assert not first.is_asked, "it has been asked"
    second.beat()
    assert second.is_asked
    assert says(tier).startswith(
        "member m2 computes the target with sticky since 0.0 s; before it (m1: it did not"
    )
    second.prepare()
    tier.advance(11_000)
    first.beat()
    second.beat()
    first.beat()
    assert tier.group().assignment_epoch == tier.group().group_epoch, "the server has assigned"
    causes = [cause for _, cause in refusals(tier)]
    assert causes == [
        "it did not ask for the group within 10000 ms",
        "it did not install an assignment within 10000 ms",
        "all that were asked failed: the server's assignor assigns",
    ]
    [*_, assigned] = [each for each in tier.events if isinstance(each, AssignmentComputed)]
    assert (assigned.assignor, assigned.member_id) == ("uniform", None)


def test_a11_an_assignor_that_fails_says_so_and_the_next_is_asked() -> None:
    tier, first, second = pair()
    prepared = first.prepare()
    answer = first.install(prepared.group_epoch, {}, error=5, error_message="no capacity", members=())
    assert answer.error_code == 0
    second.beat()
    assert second.is_asked
    assert refusals(tier) == [("m1", "its assignor failed: no capacity (5)")]


@pytest.mark.parametrize("how", ["leaves", "expires", "is replaced"])
def test_a11_a_member_that_goes_while_it_computes_is_followed_by_another(how: str) -> None:
    tier = driver()
    first = Computing(tier, "m1", instance_id="i1").join()
    second = Computing(tier, "m2").join()
    assert first.is_asked
    prepared = first.prepare()
    if how == "leaves":
        first.leave()
    elif how == "expires":
        for _ in range(3):
            second.beat()
            tier.advance(20_000)
    else:
        first.leave(-2)
        first = Computing(tier, "m1-again", instance_id="i1").join()
        assert first.is_asked
        settle(first, second)
        return
    assert first.install(prepared.group_epoch, in_turn(prepared)).error_code == ErrorCode.unknown_member_id
    settle(second)
    assert len(second.partitions) == 4


def test_a11_what_a_static_member_is_given_is_its_own_when_it_came_back_meanwhile() -> None:
    tier = driver()
    first, second = Computing(tier, "m1").join(), Computing(tier, "m2", instance_id="i2").join()
    settle(first, second)
    first.beat(client_assignors=(assignor(metadata=b"new"),))
    assert first.is_asked
    prepared = first.prepare()
    second.leave(-2)
    again = Computing(tier, "m2-again", instance_id="i2").join()
    shares: Shares = {"m1": {ORDERS: (0,)}, "m2": {ORDERS: (1, 2, 3)}}
    assert first.install(prepared.group_epoch, shares).error_code == 0
    assert "m2" not in tier.group().client_assignors
    settle(first, again)
    assert again.partitions == {(ORDERS, 1), (ORDERS, 2), (ORDERS, 3)}


def test_a11_a_new_leader_asks_again_at_the_epoch_that_it_finds() -> None:
    tier, first, second = pair()
    prepared = first.prepare()
    tier.failover()
    refused = first.install(prepared.group_epoch, in_turn(prepared))
    assert refused.error_code == ErrorCode.unknown_member_id
    second.beat()
    assert second.is_asked
    settle(first, second)


def test_a9_a_group_that_is_too_large_is_refused_and_the_server_assigns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tier, first, second = pair()
    monkeypatch.setattr(handing_out, "HANDED_BYTES_MAX", 100)
    prepared = first.prepare()
    assert prepared.error_code == ErrorCode.message_too_large
    assert "the server's assignor assigns it" in (prepared.error_message or "")
    for _ in range(3):
        first.beat()
        second.beat()
    assert tier.group().state_name == "Stable"
    assert not first.is_asked


def test_a7_the_answer_tells_what_is_pending_and_what_the_assignor_has_for_the_member() -> None:
    tier = driver()
    first = Computing(tier, "m1").join()
    settle(first)
    second = Computing(tier, "m2").join()
    assert second.is_asked
    prepared = second.prepare()
    shares = in_turn(prepared)
    answer = second.install(prepared.group_epoch, shares, members=installed(shares, b"yours"))
    assert answer.error_code == 0
    second.beat()
    assert second.answer is not None
    assert second.answer.client == ClientSide(False, 0, owned(orders=(1, 3)), 1, b"yours")
    settle(first, second)
    assert first.answer is not None
    assert first.beat().answer is not None
    assert first.answer.client is None, "a steady heartbeat says nothing"


def test_a7_new_metadata_alone_reach_the_members() -> None:
    _, first, second = pair()
    settle(first, second)
    first.beat(client_assignors=(assignor(reason=1),))
    prepared = first.prepare()
    shares = in_turn(prepared)
    first.install(prepared.group_epoch, shares, members=installed(shares, b"news"))
    for member in (first, second):
        member.beat()
        assert member.answer is not None
        assert member.answer.client is not None
        assert member.answer.client.metadata == b"news"


def test_the_records_of_members_that_assign_go_with_them_and_survive_a_failover() -> None:
    tier, first, second = pair()
    prepared = first.prepare()
    shares = in_turn(prepared)
    first.install(prepared.group_epoch, shares, members=installed(shares, b"yours"))
    kept = dict(tier.group().client_assignors), dict(tier.group().client_assignments)
    tier.failover()
    assert (dict(tier.group().client_assignors), dict(tier.group().client_assignments)) == kept
    settle(first, second)
    first.leave()
    assert list(tier.group().client_assignors) == ["m2"]
    second.leave()
    assert not tier.group().client_assignors
    assert not tier.group().client_assignments
