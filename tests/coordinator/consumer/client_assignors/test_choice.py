"""Which assignor a group uses, and what asks for a new assignment (A4)."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from actors.coordinator.consumer.client_assignors.choice import ASSIGNORS_MAX, asks_anew, choice, validate
from actors.coordinator.consumer.model.state import consumer_groups
from actors.coordinator.told.consumer_events import EpochBumped
from actors.ground.records import ClientAssignor
from actors.protocol.errors import GroupError
from tests.coordinator.consumer.client_assignors.computing import Computing, assignor, driver, settle
from tests.coordinator.consumer.driver import Driver, make_image

A, B, C = assignor("a"), assignor("b"), assignor("c")


@pytest.mark.parametrize(
    ("of_members", "chosen"),
    [
        ([(A,)], "a"),
        ([(A, B), (B, A), (B, A)], "b"),
        ([(A, B), (B, A)], "a"),
        ([(C, B), (C, A, B), (B, C)], "c"),
        ([(C, A), (C, A), (A,)], "a"),
        ([(A,), (B,)], None),
        ([(assignor("a", versions=(0, 1, 1)),), (assignor("a", versions=(2, 3, 2)),)], None),
        ([(assignor("a", versions=(0, 2, 1)),), (assignor("a", versions=(2, 3, 3)),)], "a"),
        ([(assignor("a", versions=(0, 1, 1)), B), (assignor("a", versions=(2, 3, 2)), B)], "b"),
    ],
)
def test_a4_the_assignor_with_most_votes_that_all_support(
    of_members: list[tuple[ClientAssignor, ...]], chosen: str | None
) -> None:
    assert choice(of_members) == chosen
    assert choice(of_members[::-1]) == chosen


@pytest.mark.parametrize(
    "brought",
    [
        (assignor(""),),
        (assignor("a" * 250),),
        (A, A),
        (assignor("a", versions=(2, 1, 1)),),
        (assignor("a", versions=(-1, 1, 1)),),
        (assignor("a", versions=(0, 1, 2)),),
        (assignor("a", versions=(1, 2, 0)),),
        tuple(assignor(f"a{number}") for number in range(ASSIGNORS_MAX + 1)),
    ],
    ids=["no name", "too long", "twice", "no versions", "negative", "too new", "too old", "too many"],
)
def test_a4_assignors_that_cannot_be_are_an_invalid_request(brought: tuple[ClientAssignor, ...]) -> None:
    with pytest.raises(GroupError) as refusal:
        validate(brought)
    assert refusal.value.error_code is ErrorCode.invalid_request
    tier = driver()
    tier.refused_join(ErrorCode.invalid_request, "m1", client_assignors=brought)
    assert not consumer_groups(tier.state)


@pytest.mark.parametrize(
    ("before", "after", "asks"),
    [
        (A, A, False),
        (A, assignor("a", reason=1), True),
        (assignor("a", reason=1), assignor("a", reason=1), False),
        (assignor("a", reason=1), assignor("a", reason=0), False),
        (assignor("a", reason=1), assignor("a", reason=2), True),
        (A, assignor("a", metadata=b"x"), True),
        (A, assignor("a", versions=(0, 1, 0)), True),
        (A, assignor("a", versions=(0, 2, 1)), False),
    ],
)
def test_a4_new_metadata_or_a_new_reason_ask(
    before: ClientAssignor, after: ClientAssignor, asks: bool
) -> None:
    assert asks_anew((before, B), (after, B), "a") is asks
    assert not asks_anew((before, B), (after, B), "b"), "another assignor's"


def test_a4_a_member_that_nobody_can_agree_with_is_112_and_changes_nothing() -> None:
    tier = driver()
    Computing(tier, "m1").join()
    epoch = tier.group().group_epoch
    tier.refused_join(ErrorCode.unsupported_assignor, "m2", client_assignors=(assignor("other"),))
    assert (tier.group().group_epoch, list(tier.group().members)) == (epoch, ["m1"])
    Computing(tier, "m3", assignors=(assignor("other"), assignor())).join()
    said = tier.refused(ErrorCode.unsupported_assignor, "m3", 1, client_assignors=(assignor("other"),))
    assert said is not None
    assert said.endswith("Supported by the others: sticky.")


def test_a4_below_level_2_of_the_tier_assignors_are_112() -> None:
    tier = Driver(image=make_image(1, orders=4))
    tier.refused_join(ErrorCode.unsupported_assignor, "m1", client_assignors=(A,))
    assert not consumer_groups(tier.state)


def test_a4_new_metadata_raise_the_epoch_once_and_the_cause_is_told() -> None:
    tier = driver()
    members = [Computing(tier, name).join() for name in ("m1", "m2")]
    settle(*members)
    epoch = tier.group().group_epoch
    for _ in range(2):
        members[0].beat(client_assignors=(assignor(metadata=b"capacity 2"),))
    assert tier.group().group_epoch == epoch + 1
    bumped = [each for each in tier.events if isinstance(each, EpochBumped)][-1]
    assert (bumped.cause, bumped.rule) == ("a member's assignor asks for an assignment", "A4")


def test_a4_a_member_without_assignors_has_the_server_assign() -> None:
    """Members of the classic protocol, and all of Kafka's clients, bring none."""
    tier = driver()
    members = [Computing(tier, name).join() for name in ("m1", "m2")]
    settle(*members)
    plain = Computing(tier, "m3", assignors=()).join()
    for _ in range(4):
        for member in (*members, plain):
            member.beat()
            assert not member.is_asked
    assert tier.group().state_name == "Stable"
    plain.leave()
    members[0].beat()
    assert members[0].is_asked
    settle(*members)
