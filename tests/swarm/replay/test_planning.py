"""A plan made of recorded history: the same groups, members and times, faster or more often."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.member.assigning import CLASSIC_OPAQUE
from bench.swarm.planning.plan import CONSUMER, CRASH, GROW, LEAVE, START, Action, Plan
from bench.swarm.planning.scenario import BadScenario
from bench.swarm.replay.planning import Replay, Wish, replay
from bench.swarm.replay.timeline import CALM_S, SETTLE_S
from tests.swarm.replay.recordings import Events


def acts(replayed: Replay, kind: str) -> list[tuple[float, str]]:
    """Return when actions of a kind happen, in recorded seconds, and to which member."""
    lead_s = replayed.timeline.lead_s
    return [
        (round(action.at_s - lead_s, 3), action.subject)
        for action in replayed.plan.actions
        if action.kind == kind
    ]


def test_members_come_and_go_when_they_did() -> None:
    events = Events()
    events.joined(5, "billing", "a")
    events.joined(7.25, "billing", "b")
    events.left(30, "billing", "a")
    replayed = replay(events.recording(0, 60), Wish(), seed=1)
    assert acts(replayed, START) == [(5, "billing/0"), (7.25, "billing/1")]
    assert acts(replayed, LEAVE) == [(30, "billing/0")]
    assert replayed.plan.duration_s == 60 + CALM_S  # nobody was there before, so nobody has to settle


def test_a_restarted_client_is_one_member_that_starts_twice() -> None:
    events = Events()
    events.joined(5, "billing", "a#1")
    events.left(30, "billing", "a#1")
    events.joined(32, "billing", "a#2")
    replayed = replay(events.recording(0, 60), Wish(), seed=1)
    assert acts(replayed, START) == [(5, "billing/0"), (32, "billing/0")]
    assert len(replayed.plan.members) == 1


def test_clients_of_one_name_that_are_there_together_are_two_members() -> None:
    events = Events()
    events.joined(5, "billing", "a#1")
    events.joined(6, "billing", "a#2")
    replayed = replay(events.recording(0, 60), Wish(), seed=1)
    assert [member.name for member in replayed.plan.members] == ["billing/0", "billing/1"]


def test_a_member_whose_session_ended_crashes_a_session_before() -> None:
    events = Events("consumer")
    events.joined(5, "billing", "a")
    events.expired(100, "billing", "a", cause="session timeout")
    replayed = replay(events.recording(0, 120), Wish(), seed=1)
    assert acts(replayed, CRASH) == [(55, "billing/0")]


def test_a_classic_session_is_no_longer_than_a_life_that_it_ended() -> None:
    """Else the member would expire long after it did, and the rebalance that followed would be late."""
    events = Events()
    events.joined(5, "billing", "a")
    events.expired(17, "billing", "a", cause="session timed out")
    replayed = replay(events.recording(0, 60), Wish(), seed=1)
    assert replayed.plan.members[0].session_timeout_ms == 11_000
    assert any("session timeout of billing is taken to be 11 s" in word for word in replayed.words)


def test_a_member_crashes_as_long_before_it_expired_as_its_recorded_session_lasted() -> None:
    """A replay had guessed 27 s from how long members had lived, where it had been 10 s."""
    events = Events()
    events.joined(5, "billing", "a", session_timeout_ms=10_000)
    events.joined(6, "billing", "b", session_timeout_ms=30_000)
    events.expired(40, "billing", "a", cause="session timed out")
    events.expired(50, "billing", "b", cause="session timed out")
    replayed = replay(events.recording(0, 60), Wish(), seed=1)
    assert [member.session_timeout_ms for member in replayed.plan.members] == [10_000, 30_000]
    assert acts(replayed, CRASH) == [(20, "billing/1"), (30, "billing/0")]
    assert not any("session timeout" in word for word in replayed.words)


def test_a_client_that_came_back_with_another_session_timeout_is_another_member() -> None:
    events = Events()
    for at_s, member, timeout_ms in ((5, "a#1", 10_000), (20, "a#2", 10_000), (35, "a#3", 20_000)):
        events.joined(at_s, "billing", member, session_timeout_ms=timeout_ms)
        events.left(at_s + 10, "billing", member)
    replayed = replay(events.recording(0, 60), Wish(), seed=1)
    assert [member.session_timeout_ms for member in replayed.plan.members] == [10_000, 20_000]
    assert acts(replayed, START) == [(5, "billing/0"), (20, "billing/0"), (35, "billing/1")]


def test_a_session_timeout_that_an_older_release_did_not_record_is_guessed_and_told() -> None:
    events = Events()
    events.joined(5, "billing", "a")
    events.joined(6, "billing", "b", session_timeout_ms=30_000)
    events.expired(17, "billing", "a", cause="session timed out")
    replayed = replay(events.recording(0, 60), Wish(), seed=1)
    assert [member.session_timeout_ms for member in replayed.plan.members] == [11_000, 30_000]
    assert any(word.startswith("The session timeout of 1 member is not recorded") for word in replayed.words)
    assert any("session timeout of billing is taken to be 11 s" in word for word in replayed.words)


def test_a_session_timeout_that_the_target_would_not_have_is_told() -> None:
    """A KIP-848 member's is the target's, and a classic one has bounds; each expires when it did."""
    events = Events("consumer")
    events.joined(5, "new", "a", session_timeout_ms=60_000)
    events.expired(100, "new", "a", cause="session timeout")
    events.group_type = "classic"
    events.joined(5, "old", "b", session_timeout_ms=2_000)
    events.expired(50, "old", "b", cause="session timed out")
    replayed = replay(events.recording(0, 120), Wish(), seed=1)
    assert acts(replayed, CRASH) == [(44, "old/0"), (55, "new/0")]
    told = [word for word in replayed.words if "another than members have now" in word]
    assert [word.split(" was ")[0] for word in told] == ["The session timeout of new, old"]


def test_members_that_were_there_already_settle_before_the_recorded_time_begins() -> None:
    events = Events()
    events.joined(5, "billing", "a")
    events.joined(6, "billing", "b")
    events.left(90, "billing", "b")
    replayed = replay(events.recording(60, 120), Wish(), seed=1)
    assert [action.at_s for action in replayed.plan.actions if action.kind == START] == [0, 1.5]
    assert acts(replayed, LEAVE) == [(30, "billing/1")]
    assert replayed.timeline.lead_s == SETTLE_S


def test_a_member_that_was_dying_when_the_recorded_time_began_expires_when_it_did() -> None:
    events = Events("consumer")
    events.joined(5, "billing", "a")
    events.expired(70, "billing", "a", cause="session timeout")
    replayed = replay(events.recording(60, 120), Wish(), seed=1)
    assert acts(replayed, CRASH) == [(10 - 45, "billing/0")]
    assert replayed.timeline.lead_s == SETTLE_S + 35


def test_members_from_before_history_begins_show_in_counts_and_when_they_go() -> None:
    events = Events()
    events.left(10, "billing", "a", members=2)
    events.left(20, "billing", "b", members=1)
    replayed = replay(events.recording(0, 60), Wish(), seed=1)
    assert len(replayed.plan.members) == 3
    assert [at_s for at_s, _ in acts(replayed, LEAVE)] == [10, 20]
    assert any(word.startswith("1 member came before history begins") for word in replayed.words)


def test_a_static_member_that_comes_back_takes_its_own_place() -> None:
    events = Events("consumer")
    events.joined(5, "billing", "a#1", group_instance_id="till-1")
    events.fenced(50, "billing", "a#1", group_instance_id="till-1")
    events.joined(50, "billing", "a#2", group_instance_id="till-1")
    replayed = replay(events.recording(0, 60), Wish(), seed=1)
    assert [member.instance_id for member in replayed.plan.members] == ["till-1"]
    assert acts(replayed, LEAVE) == [(49, "billing/0")]
    assert acts(replayed, START) == [(5, "billing/0"), (50, "billing/0")]


def test_a_member_id_that_was_never_used_is_no_member() -> None:
    events = Events()
    events.joined(5, "billing", "a")
    events.expired(10, "billing", "pending", client_id=None, client_host=None)
    assert len(replay(events.recording(0, 60), Wish(), seed=1).plan.members) == 1


def test_topics_have_the_partitions_that_members_were_given_and_grow_when_they_grew() -> None:
    events = Events("consumer")
    events.joined(5, "billing", "a")
    events.rebalanced(6, "billing", 0.5, partitions=6, widths=(("orders", 4), ("refunds", 2)))
    events.rebalanced(30, "billing", 1, partitions=8, widths=(("orders", 6),), cause="topic metadata changed")
    replayed = replay(events.recording(0, 60), Wish(prefix="x-"), seed=1)
    assert replayed.plan.topics == (("x-orders", 4), ("x-refunds", 2))
    grown = [action for action in replayed.plan.actions if action.kind == GROW]
    assert grown == [Action(29, GROW, "x-orders", 6)]
    assert replayed.plan.members[0].topics == ("x-orders", "x-refunds")


def test_partitions_that_moved_unseen_are_made_up_for() -> None:
    """History names only the first thousand of many moves."""
    events = Events("consumer")
    events.joined(5, "billing", "a")
    events.rebalanced(6, "billing", 0.5, partitions=2_500, widths=(("orders", 1_000),))
    replayed = replay(events.recording(0, 60), Wish(), seed=1)
    assert replayed.plan.topics == (("orders", 2_500),)


def test_a_group_speaks_the_protocol_that_it_spoke() -> None:
    events = Events("consumer")
    events.joined(5, "new", "a")
    events.group_type = "classic"
    events.joined(5, "connectors", "w")
    events.rebalanced(6, "connectors", 1, assignor="sessioned")
    events.joined(5, "old", "b")
    events.rebalanced(6, "old", 1, assignor="cooperative-sticky", partitions=2, widths=(("orders", 2),))
    found = replay(events.recording(0, 60), Wish(), seed=1).plan.members
    spoken = {member.group_id: member.protocol for member in found}
    assert spoken == {"new": CONSUMER, "connectors": CLASSIC_OPAQUE, "old": "cooperative-sticky"}


def test_members_are_the_client_software_that_they_were() -> None:
    events = Events()
    events.joined(5, "billing", "a", client_software="sarama 1.45.0")
    events.joined(6, "billing", "b", client_software="apache-kafka-java 3.9.1")
    events.joined(7, "billing", "c", client_software="home-made 1")
    replayed = replay(events.recording(0, 60), Wish(), seed=1)
    java = "apache-kafka-java"
    assert [member.client for member in replayed.plan.members] == ["sarama", java, java]
    assert "Client software that is played as Kafka's Java client: home-made 1." in replayed.words


def test_commits_come_as_often_and_with_as_many_partitions() -> None:
    """Two members for 100 s, 40 commits: every 5 s each. Each owned 12 partitions and committed 3 of them."""
    events = Events("consumer")
    for member in "ab":
        events.joined(0, "billing", member)
    events.rebalanced(0, "billing", 0, partitions=24, widths=(("orders", 24),))
    events.committed("billing", 40, 120)
    member = replay(events.recording(0, 100), Wish(), seed=1).plan.members[0]
    assert (member.commit_interval_ms, member.commit_partitions_max) == (5_000, 3)


def test_members_that_committed_all_they_owned_do_so_however_much_that_is() -> None:
    """A cap at the mean would cut those that own more, and none would make up for it."""
    events = Events("consumer")
    for at_s, member in ((0, "a"), (50, "b")):
        events.joined(at_s, "billing", member)
    events.rebalanced(0, "billing", 0, partitions=24, widths=(("orders", 24),))
    events.committed("billing", 150, 150 * 16)
    member = replay(events.recording(0, 100), Wish(), seed=1).plan.members[0]
    assert (member.commit_interval_ms, member.commit_partitions_max) == (1_000, 1_000)


def test_what_members_commit_because_they_rebalance_is_not_planned_twice() -> None:
    """Both members commit once more at 50 s, because they rebalance; the newcomer owns nothing for 20 s."""
    events = Events("classic")
    for member in "ab":
        events.joined(0, "billing", member)
    events.rebalanced(0, "billing", 0, partitions=24, widths=(("orders", 24),))
    events.joined(50, "billing", "c")
    events.rebalanced(70, "billing", 0, partitions=24)
    events.left(70, "billing", "c")
    events.committed("billing", 202, 0)
    member = replay(events.recording(0, 100), Wish(), seed=1).plan.members[0]
    assert member.commit_interval_ms == pytest.approx(1_000, abs=5)


def test_a_newcomer_of_a_cooperative_group_commits_once_it_was_given_partitions() -> None:
    """Others give them up in its first rebalance, and it is given them in the next one, 20 s later."""
    events = Events()
    events.joined(0, "billing", "a")
    share = {"partitions": 24, "widths": (("orders", 24),), "assignor": "cooperative-sticky"}
    events.rebalanced(0, "billing", 0, **share, moved=24, takers=("a",))
    events.joined(40, "billing", "b")
    events.rebalanced(40, "billing", 0, **share, moved=12)
    events.rebalanced(60, "billing", 0, **share, moved=12, takers=("b",))
    events.committed("billing", 100 + 40 + 2, 0)
    member = replay(events.recording(0, 100), Wish(), seed=1).plan.members[0]
    assert member.commit_interval_ms == pytest.approx(1_000, abs=5)


def test_a_newcomer_of_a_consumer_group_commits_once_the_group_is_stable() -> None:
    """The rebalance that was under way is cut short when it joins."""
    events = Events("consumer")
    events.joined(0, "billing", "a")
    events.rebalanced(0, "billing", 0, partitions=24, widths=(("orders", 24),))
    events.joined(40, "billing", "b")
    events.rebalanced(40, "billing", 2, state="Assigning")
    events.rebalanced(60, "billing", 20)
    events.committed("billing", 100 + 40, 0)
    member = replay(events.recording(0, 100), Wish(), seed=1).plan.members[0]
    assert member.commit_interval_ms == pytest.approx(1_000, abs=5)


def test_a_group_that_did_not_commit_does_not() -> None:
    events = Events()
    events.joined(0, "billing", "a")
    assert replay(events.recording(0, 100), Wish(), seed=1).plan.members[0].commit_interval_ms == 0


def test_faster_means_that_as_much_happens_in_less_time() -> None:
    events = Events("consumer")
    events.joined(10, "billing", "a")
    events.rebalanced(10, "billing", 0, partitions=1, widths=(("orders", 1),))
    events.left(50, "billing", "a")
    events.committed("billing", 40, 40)
    replayed = replay(events.recording(0, 100), Wish(faster=4), seed=1)
    assert acts(replayed, START) == [(2.5, "billing/0")]
    assert acts(replayed, LEAVE) == [(12.5, "billing/0")]
    assert replayed.timeline.length_s == 25
    assert replayed.plan.members[0].commit_interval_ms == 250


def test_ten_times_as_many_groups_read_the_same_topics() -> None:
    events = Events()
    events.joined(5, "billing", "a")
    events.rebalanced(6, "billing", 1, partitions=3, widths=(("orders", 3),))
    replayed = replay(events.recording(0, 60), Wish(times=10, prefix="x-"), seed=1)
    groups = [member.group_id for member in replayed.plan.members]
    assert groups == ["x-billing", *(f"x-billing~{copy}" for copy in range(2, 11))]
    assert set(replayed.groups.values()) == {"billing"}
    assert replayed.plan.topics == (("x-orders", 3),)
    assert {at_s for at_s, _ in acts(replayed, START)} == {5}


def test_too_many_members_are_refused_with_what_to_do() -> None:
    events = Events()
    events.joined(5, "billing", "a")
    with pytest.raises(BadScenario, match=r"200,001 lives of members .* fewer --times"):
        replay(events.recording(0, 60), Wish(times=200_001), seed=1)


def test_a_time_without_members_is_refused() -> None:
    events = Events()
    events.joined(5, "billing", "a")
    events.left(10, "billing", "a")
    with pytest.raises(BadScenario, match="no group that has a member is recorded from 2026-03-03"):
        replay(events.recording(100, 200), Wish(), seed=1)


def test_who_committed_without_a_member_is_named() -> None:
    events = Events()
    events.joined(5, "billing", "a")
    events.committed("exporter", 10, 10)
    words = replay(events.recording(0, 60), Wish(), seed=1).words
    assert "Left out, for no member of them is recorded: exporter." in words


LIVES = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.integers(-200, 300),
        st.integers(0, 200),
        st.sampled_from(["left", "expired", "fenced", "stays"]),
        st.booleans(),
    ),
    min_size=1,
    max_size=30,
)


@given(lives=LIVES, group_type=st.sampled_from(["classic", "consumer"]), faster=st.sampled_from([1, 2.5, 40]))
def test_actions_are_in_order_and_whoever_goes_has_come(
    lives: list[tuple[int, int, int, str, bool]], group_type: str, faster: float
) -> None:
    events = Events(group_type)
    told = []
    for place, (client, at_s, for_s, ending, is_static) in enumerate(lives):
        member = f"c{client}#{place}"
        fields = {"group_instance_id": f"c{client}"} if is_static else {}
        told.append((at_s, "joined", member, fields))
        if ending != "stays":
            told.append((at_s + for_s, ending, member, fields))
    for at_s, what, member, fields in sorted(told, key=lambda each: each[0]):
        getattr(events, what)(at_s, "billing", member, **fields)
    recording = events.recording(0, 300)
    try:
        plan = replay(recording, Wish(faster=faster), seed=1).plan
    except BadScenario:
        return  # nobody was there at that time
    check(plan)


def check(plan: Plan) -> None:
    times = [action.at_s for action in plan.actions]
    assert times == sorted(times)
    assert all(0 <= at_s <= plan.duration_s for at_s in times)
    balance: Counter[str] = Counter()
    for action in plan.actions:
        balance[action.subject] += 1 if action.kind == START else -1
        assert balance[action.subject] in (0, 1), "starts and ends take turns"
    assert {action.subject for action in plan.actions} == {member.name for member in plan.members}
