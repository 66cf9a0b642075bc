"""The whole of it, small: a tier is attached to a real Kafka with real consumers, both are broken and
upgraded, and it is detached, twice."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from bench.attached import story
from bench.attached.judge import STABLE, Standing
from bench.attached.site import Site
from tests.kafka import jvm
from tests.kafka.tools import GROUPS, Tools

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(2_400)]

CONSUMERS = 28


def by_kafkas_tool(site: Site, groups: list[str]) -> Mapping[str, Standing]:
    """What kafka-consumer-groups says of the groups."""
    found = {}
    with Tools(jvm.build_tools(), site.bootstrap) as tools:
        for group in groups:
            offsets = tools.table(GROUPS, "--describe", "--group", group)
            (state,) = tools.table(GROUPS, "--describe", "--state", "--group", group)
            found[group] = Standing(
                STABLE if STABLE in map(str.lower, state.values()) else str(state),
                {f"{row['TOPIC']}-{row['PARTITION']}": int(row["CURRENT-OFFSET"]) for row in offsets},
            )
    return found


def test_no_commit_is_lost_no_record_unseen_and_no_group_needs_a_hand(version: str) -> None:
    plan = story.Plan(consumers=CONSUMERS, kafka_home=jvm.build(kafka_version=version))
    result = story.run(plan, print, by_kafkas_tool)
    assert result.findings == []
    assert sum(result.consumers.values()) == CONSUMERS
    assert result.records > 0
    assert [row.step for row in result.rows if "round 2" in row.step][-1] == "round 2: detach"
