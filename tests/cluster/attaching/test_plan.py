"""What a plan says of a cluster: what would move, how long it takes, what it comes to."""

from __future__ import annotations

import json

import pytest

from cluster.attaching.facts import Counted, Facts, GroupRow, Sample, Wishes
from cluster.attaching.plan import asked, estimated, features, moving, plain, planned, sized, verdict
from tests.cluster.attaching.clusters import CLUSTER_ID, FEATURES, facts, of_a_tier, with_groups


def told(seen: Facts) -> dict[str, str]:
    return dict(moving(planned(seen, Wishes())))


def test_what_would_move() -> None:
    rows = [
        GroupRow("a", "Classic", "Empty"),
        GroupRow("b", "Classic", "Stable"),
        GroupRow("c", "Classic", "Stable"),
        GroupRow("d", "Consumer", "Stable"),
    ]
    said = told(facts(brokers=with_groups(*rows), counted=Counted(1_200, 4)))
    assert said["offsets partitions"] == "4 of __consumer_offsets, with 4.0 MB to fetch"
    assert said["groups"] == "3 classic (1 Empty, 2 Stable); 1 consumer (1 Stable)"
    assert said["committed offsets"] == "1,200 of 4 groups"


def test_the_estimate_is_made_of_partitions_and_of_bytes() -> None:
    estimate = estimated(facts(sample=Sample(2_000_000, 0.5)))
    assert estimate.least_s == pytest.approx(4 * 0.15 + 1.0)
    assert estimate.most_s == pytest.approx(4 * 0.6 + 1.0)
    assert "4.0 MB of records at 4.0 MB/s (measured now)" in estimate.how


@pytest.mark.parametrize("sample", [None, Sample(1_000, 0.001)])
def test_a_small_sample_measures_nothing(sample: Sample | None) -> None:
    assert "10.0 MB/s (assumed" in estimated(facts(sample=sample)).how


def test_without_sizes_the_estimate_says_so() -> None:
    seen = facts(brokers=with_groups())
    blind = seen._replace(brokers=tuple(broker._replace(size_bytes={}) for broker in seen.brokers))
    assert "no broker told their size" in estimated(blind).how
    assert "of unknown size" in told(blind)["offsets partitions"]


def test_a_cluster_without_the_topic() -> None:
    said = told(facts(partitions=None))
    assert said["offsets partitions"] == "none yet: the tier will make __consumer_offsets with 4"
    assert said["roughly"] == "a few seconds: there is nothing to fetch"


def test_a_topic_that_may_not_be_seen() -> None:
    said = told(facts(partitions=None, is_topic_seen=False))
    assert said["offsets partitions"] == "not known: the user may not see __consumer_offsets"
    assert said["roughly"] == "not known"


def test_offsets_that_were_not_all_counted() -> None:
    said = told(facts(counted=Counted(7, 1, "counting was stopped after 10 s")))
    assert said["committed offsets"] == "at least 7 of 1 group: counting was stopped after 10 s"


def test_who_was_asked() -> None:
    assert asked(facts()) == [
        ("cluster", CLUSTER_ID),
        ("metadata.version", "4.4-IV2"),
        ("brokers", "1, 2, 3"),
        ("controller", "4 is active at four:9093, of 3 that vote"),
    ]
    assert asked(Facts("x", is_kraft=False)) == [("cluster", "x"), ("metadata.version", "none")]


def test_which_levels_are_understood() -> None:
    supported = {"metadata.version": 35, "share.version": 9, "teleport.version": 1}
    said = dict(features(facts(supported=supported)))
    assert said["group.version"] == "level 1, understood from level 0 to level 1"
    assert said["metadata.version"] == (
        "4.4-IV2, understood from 3.7-IV2 to 4.4-IV2; the controllers have level 35, which is refused while "
        "the tier is attached"
    )
    assert said["share.version"] == "level 2, understood from level 0 to level 9"
    assert said["teleport.version"].startswith("level 0, not known here; the controllers have level 1")
    assert features(Facts("x", is_kraft=False)) == []
    assert dict(features(facts()))["metadata.version"] == "4.4-IV2, understood from 3.7-IV2 to 4.4-IV2"


def test_groups_of_a_silent_broker_are_missing() -> None:
    *others, third = facts().brokers
    silent = third._replace(answers=False)
    assert told(facts(brokers=(*others, silent)))["groups"] == (
        "1 consumer (1 Stable), and those of 1 broker without an answer"
    )


def test_the_verdict() -> None:
    good, warned = planned(facts(), Wishes()), planned(facts(of_a_tier(5, says_so=False)), Wishes())
    assert (verdict(good), good.is_blocked) == ("Nothing blocks.", False)
    assert (verdict(warned), warned.is_blocked) == ("Nothing blocks. 1 thing to know.", False)
    bad = planned(facts(features={**FEATURES, "metadata.version": 5, "x": 1}), Wishes())
    assert (verdict(bad), bad.is_blocked) == ("2 things block.", True)


def test_a_plan_is_json() -> None:
    shown = json.loads(json.dumps(plain(planned(facts(), Wishes()))))
    assert (shown["blocked"], shown["obstacles"], shown["offsets_partitions"]) == (False, [], 4)
    assert shown["groups"] == [{"group": "orders", "type": "Consumer", "state": "Stable"}]
    assert plain(planned(facts(partitions=None, quorum=None), Wishes()))["offsets_partitions"] is None


@pytest.mark.parametrize(("size_bytes", "words"), [(12, "12 bytes"), (3_400, "3.4 kB"), (5e9, "5.0 GB")])
def test_sizes(size_bytes: float, words: str) -> None:
    assert sized(size_bytes) == words
