"""Each partition has the epoch since which its member owns it, and with which it may be committed: KIP-1251,
rules O4 and O6."""

from __future__ import annotations

import random

from kio.schema.errors import ErrorCode

from actors.coordinator.consumer.model import assignment_epochs
from actors.coordinator.consumer.model.member import STABLE, UNREVOKED_PARTITIONS
from actors.coordinator.ground import partitions
from actors.ground.records import CurrentAssignmentValue
from actors.protocol.errors import GroupError
from tests.coordinator.consumer.driver import Client, Driver, make_image, owned, settle, topic_id
from tests.coordinator.unpacked import to_lists


def commit_error(driver: Driver, member_id: str, epoch: int, *numbers: int) -> ErrorCode:
    try:
        driver.check_commit(member_id, epoch, orders=numbers)
    except GroupError as error:
        return error.error_code
    return ErrorCode.none


def epochs(driver: Driver, member_id: str) -> dict[int, int]:
    current = driver.group().members[member_id].current
    assert current is not None
    return assignment_epochs.of_topic(current, topic_id("orders"))


def test_what_a_member_kept_may_be_committed_with_an_older_epoch() -> None:
    """O6: a commit that was under way when the epoch rose is taken for partitions that the member kept, not
    for those that came with the new epoch."""
    driver = Driver()
    a, b = Client(driver, "a").join(), Client(driver, "b").join()
    settle(a, b)
    assert epochs(driver, "a") == {0: 2, 1: 2}
    assert epochs(driver, "b") == {2: 3, 3: 3}
    b.leave()
    settle(a)
    assert epochs(driver, "a") == {0: 2, 1: 2, 2: 4, 3: 4}
    assert commit_error(driver, "a", 4, 0, 2) is ErrorCode.none
    assert commit_error(driver, "a", 3, 0, 1) is ErrorCode.none
    assert commit_error(driver, "a", 2, 0, 1) is ErrorCode.none
    assert commit_error(driver, "a", 1, 0) is ErrorCode.stale_member_epoch
    assert commit_error(driver, "a", 5, 0) is ErrorCode.stale_member_epoch
    assert commit_error(driver, "a", 3, 0, 2) is ErrorCode.stale_member_epoch


def test_what_is_still_to_be_revoked_may_be_committed() -> None:
    """O6: the last commit before the revocation is such a one. Afterwards the former owner may not commit."""
    driver = Driver()
    a = Client(driver, "a").join()
    driver.join("b")
    a.beat()
    current = driver.group().members["a"].current
    assert current is not None
    assert (current.state, current.pending_revocation) == (UNREVOKED_PARTITIONS, owned(orders=[2, 3]))
    assert epochs(driver, "a") == dict.fromkeys(range(4), 2)
    assert commit_error(driver, "a", 2, 3) is ErrorCode.none
    a.beat()
    assert a.epoch == 3
    assert commit_error(driver, "a", 2, 0) is ErrorCode.none
    assert commit_error(driver, "a", 2, 3) is ErrorCode.stale_member_epoch
    assert commit_error(driver, "a", 3, 3) is ErrorCode.none


def test_a_static_member_that_was_away_has_what_it_had_since_epoch_zero() -> None:
    """M20: once it is back, it may commit with any epoch of its former life."""
    driver = Driver()
    a = Client(driver, "a", instance_id="i").join()
    settle(a)
    a.leave(-2)
    assert set(epochs(driver, "a").values()) == {0}
    again = Client(driver, "a2", instance_id="i").join()
    settle(again)
    assert set(epochs(driver, "a2").values()) == {0}
    assert again.epoch == 2
    assert commit_error(driver, "a2", 1, 0) is ErrorCode.none


def test_epochs_of_yesterdays_records_are_the_members_epoch() -> None:
    """O4: a record that was written before there were assignment epochs is read."""
    driver = Driver(image=make_image(1, orders=2))
    driver.join("a")
    (key,) = (record.key for record in driver.last_records if record.key[0] == 8)
    driver.shard.apply(key, (7, 6, STABLE, owned(orders=[0, 1]), ()))
    assert epochs(driver, "a") == {0: 7, 1: 7}


def test_epochs_are_kept_for_what_is_kept_whatever_the_steps() -> None:
    """The epochs are compared with a plain dict: each partition's is the one at which the member last got
    it."""
    rng = random.Random(1)
    current = CurrentAssignmentValue(1, 0, STABLE, (), ())
    known: dict[tuple[bytes, int], int] = {}
    for epoch in range(2, 200):
        have = {name: set(rng.sample(range(6), rng.randrange(7))) for name in ("x", "y")}
        kept = {name: have[name] if rng.random() < 0.7 else set() for name in have}
        assigned = owned(**kept)
        revoked = partitions.difference(current.assigned, assigned) if rng.random() < 0.5 else ()
        after = CurrentAssignmentValue(epoch, current.member_epoch, STABLE, assigned, revoked)
        current = assignment_epochs.carried(current, after, epoch)
        held = {
            (topic, number)
            for source in (assigned, revoked)
            for topic, numbers in to_lists(source).items()
            for number in numbers
        }
        was_assigned = {key: since for key, since in known.items() if key in held}
        known = {key: was_assigned.get(key, epoch) for key in held}
        shown = {
            (topic, number): since
            for topic in (topic_id("x"), topic_id("y"))
            for number, since in assignment_epochs.of_topic(current, topic).items()
        }
        assert shown == known, epoch
        known = {key: since for key, since in known.items() if key not in _pairs(revoked)}


def _pairs(assignment: tuple[tuple[bytes, bytes], ...]) -> set[tuple[bytes, int]]:
    return {(topic, n) for topic, numbers in to_lists(assignment).items() for n in numbers}
