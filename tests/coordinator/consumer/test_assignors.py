"""The assignors of a group: votes choose among them, and `group.consumer.assignors` names plug-ins (M7, M9,
A3, A22)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from actors.assignors.compiled import WARMING
from actors.assignors.registry import AssignorError, named
from actors.assignors.spec import AssignmentSpec, is_assignor
from actors.coordinator.consumer import target_arrays, views
from actors.coordinator.consumer.assignment_jobs import OVERDUE_MS, RETRY_MS, AssignmentFailed
from actors.coordinator.consumer.model.state import consumer_groups
from actors.ground.settings import GroupSettings
from tests.coordinator.consumer.driver import GROUP, Driver, outcome, owned, snapshot, topic_id

_HERE = f"{__name__}:"


class AllToTheFirst:
    """A plug-in that assigns everything to the member whose id comes first, except on racks named
    "broken"."""

    name = "first"

    def assign(self, spec: AssignmentSpec) -> Mapping[str, Mapping[bytes, Iterable[int]]]:
        if any(member.rack_id == "broken" for member in spec.members):
            raise RuntimeError("I do not like this rack")
        first = min(spec.members, key=lambda member: member.member_id)
        assert all(isinstance(member.target_partitions, dict) for member in spec.members)
        return {first.member_id: {t: range(spec.partition_counts[t]) for t in first.topic_ids}}


class TwoOwners:
    name = "generous"

    def assign(self, spec: AssignmentSpec) -> Mapping[str, Mapping[bytes, Iterable[int]]]:
        return {member.member_id: {t: [0] for t in member.topic_ids} for member in spec.members}


class BeyondTheEnd:
    name = "optimist"

    def assign(self, spec: AssignmentSpec) -> Mapping[str, Mapping[bytes, Iterable[int]]]:
        return {member.member_id: {t: [99] for t in member.topic_ids} for member in spec.members}


def with_assignors(*entries: str) -> Driver:
    return Driver(
        settings=GroupSettings(
            group_consumer_assignment_interval_ms=0, group_consumer_assignors=("uniform", *entries)
        )
    )


def test_a_big_group_does_not_wait_for_kernels_that_are_being_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(target_arrays, "ARRAYS_FROM", 0)
    monkeypatch.setattr(WARMING, "is_under_way", True)
    driver = with_assignors()
    assert driver.join("a").assignment == owned(orders=range(4))
    assert consumer_groups(driver.state)[GROUP].target_arrays is None
    monkeypatch.setattr(WARMING, "is_under_way", False)
    driver.join("b")
    assert consumer_groups(driver.state)[GROUP].target_arrays is not None


def test_a_plug_in_assigns_when_members_ask_for_it() -> None:
    """A22, M7: members and ConsumerGroupDescribe use the plug-in's own name. Until it has assigned, members
    keep their partitions, at an epoch that is never 0."""
    driver = with_assignors(_HERE + "AllToTheFirst")
    assert driver.join("b", server_assignor="first").member_epoch == 1
    assert driver.run_plug_ins() == [True]
    told = driver.beat("b", 1)
    assert (told.member_epoch, told.assignment) == (2, owned(orders=range(4)))
    assert driver.join("a", server_assignor="first").assignment == ()
    assert views.describe(driver.state, GROUP).group_state == "Assigning"
    assert driver.run_plug_ins() == [True]
    assert views.describe(driver.state, GROUP).assignor_name == "first"
    targets = {member_id: member.target for member_id, member in driver.group().members.items()}
    assert targets == {"a": owned(orders=range(4)), "b": ()}


def test_a_plug_in_is_asked_once_at_a_time() -> None:
    """Heartbeats go on, and a plug-in that never answers is asked again when its time is over."""
    driver = with_assignors(_HERE + "AllToTheFirst")
    driver.join("a", server_assignor="first")
    driver.beat("a", 1)
    driver.join("b", server_assignor="first")
    assert len(driver.asked()) == 1
    driver.advance(driver.settings.group_consumer_assignor_timeout_ms + OVERDUE_MS)
    driver.beat("a", 1)
    (again,) = driver.asked()
    assert {member.member_id for member in again.spec.members} == {"a", "b"}


def test_what_comes_back_when_the_group_has_moved_on_is_dropped() -> None:
    """Meanwhile another member has joined, or taken a static one's place, or another leader was elected."""
    driver = with_assignors(_HERE + "AllToTheFirst")
    driver.join("a", server_assignor="first", instance_id="i")
    (asked,) = driver.asked()
    driver.join("b", server_assignor="first")
    assert not driver.assigned(outcome(asked, driver.settings))
    driver.beat("b", 1)
    (asked,) = driver.asked()
    driver.beat("a", -2, instance_id="i")
    driver.join("c", server_assignor="first", instance_id="i")
    assert not driver.assigned(outcome(asked, driver.settings))
    driver.beat("b", 1)
    (asked,) = driver.asked()
    driver.failover()
    assert not driver.assigned(outcome(asked, driver.settings))
    driver.beat("b", 1)
    assert driver.run_plug_ins() == [True]
    assert driver.beat("b", 1).assignment == owned(orders=range(4))


def failures(driver: Driver) -> list[str]:
    return [event.error for event in driver.events if isinstance(event, AssignmentFailed)]


def test_an_assignor_that_fails_leaves_the_group_as_it_is() -> None:
    """M9: nothing is written, all members keep their partitions, and after a pause the plug-in is asked
    again."""
    driver = with_assignors(_HERE + "AllToTheFirst")
    driver.join("a", server_assignor="first")
    driver.run_plug_ins()
    driver.beat("a", 1)
    driver.join("b", server_assignor="first", rack_id="broken")
    before = snapshot(driver.state)
    assert driver.run_plug_ins() == [True]
    assert "I do not like this rack" in failures(driver)[0]
    assert snapshot(driver.state) == before
    assert driver.beat("a", 2).member_epoch == 2
    assert not driver.asked()
    driver.advance(RETRY_MS)
    driver.beat("a", 2)
    driver.beat("b", -1)
    assert len(driver.asked()) == 1


@pytest.mark.parametrize(
    ("plug_in", "said"), [("TwoOwners", "a partition twice"), ("BeyondTheEnd", "does not exist")]
)
def test_an_impossible_assignment_is_not_believed(plug_in: str, said: str) -> None:
    """M9, A22: it counts as a failure of the assignor."""
    driver = with_assignors(_HERE + plug_in)
    name = {"TwoOwners": "generous", "BeyondTheEnd": "optimist"}[plug_in]
    driver.join("a", server_assignor=name)
    driver.join("b", server_assignor=name)
    (asked,) = driver.asked()
    assert not driver.assigned(outcome(asked, driver.settings))
    driver.beat("a", 1)
    assert driver.run_plug_ins() == [True]
    assert said in failures(driver)[0]
    assert {member.target for member in driver.group().members.values()} == {None}


class FoundByName(AllToTheFirst):
    name = "found"


def test_a_plug_in_is_found_by_its_entry_point(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A22: a distribution that is installed names it in the group `groupd.assignors`."""
    metadata = tmp_path / "company_assignors-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: company-assignors\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(f"[groupd.assignors]\nnearest = {_HERE}FoundByName\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert is_assignor("nearest")
    assert list(named(("uniform", "nearest"))) == ["uniform", "found"]
    driver = with_assignors("nearest")
    driver.join("a", server_assignor="found")
    assert driver.run_plug_ins() == [True]
    assert driver.beat("a", 1).assignment == owned(orders=range(4))


def test_an_assignor_that_nobody_has_is_112_and_the_error_lists_those_there_are() -> None:
    """M1: names are compared exactly."""
    driver = with_assignors(_HERE + "AllToTheFirst")
    for name in ("", "Uniform", _HERE + "AllToTheFirst", "second"):
        driver.refused_join(ErrorCode.unsupported_assignor, "a", server_assignor=name)


@pytest.mark.parametrize("entry", ["no_such_module_here:Class", _HERE + "NoSuchClass", "json:loads"])
def test_a_plug_in_that_cannot_be_had_says_which(entry: str) -> None:
    """A22: the operator is told before the tier starts."""
    with pytest.raises(AssignorError, match=entry):
        named(("uniform", entry))
    driver = with_assignors(entry)
    driver.refused_join(ErrorCode.unknown_server_error, "a", server_assignor="uniform")


def test_the_default_assigns_when_nobody_asks() -> None:
    """M7, A3: the default is the first of the list. Topics are not ordered by their ids."""
    driver = with_assignors(_HERE + "AllToTheFirst")
    driver.join("a")
    driver.join("b")
    assert views.describe(driver.state, GROUP).assignor_name == "uniform"
    assert {t for m in driver.group().members.values() for t, _ in m.target or ()} == {topic_id("orders")}
