"""The whole of it, small: a tier is attached to a real Kafka with real consumers, both are broken and
upgraded, and it is detached, twice."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from bench.attached import story
from bench.attached.crews import CONFIGURATIONS
from bench.attached.judge import STABLE, Standing
from bench.attached.site import Site
from tests.authority import Authority
from tests.kafka import jvm
from tests.kafka.logins import write_properties
from tests.kafka.tools import GROUPS, Tools
from tests.upstream.secured import SecuredGround

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(2_400)]

CONSUMERS = 28


def by_kafkas_tool(site: Site, groups: list[str], *login: str) -> Mapping[str, Standing]:
    """What kafka-consumer-groups says of the groups."""
    found = {}
    with Tools(jvm.build_tools(), site.bootstrap) as tools:
        for group in groups:
            offsets = tools.table(GROUPS, *login, "--describe", "--group", group)
            (state,) = tools.table(GROUPS, *login, "--describe", "--state", "--group", group)
            found[group] = Standing(
                STABLE if STABLE in map(str.lower, state.values()) else str(state),
                {f"{row['TOPIC']}-{row['PARTITION']}": int(row["CURRENT-OFFSET"]) for row in offsets},
            )
    return found


def test_users_who_log_in_over_tls_lose_nothing_either(
    version: str, authority: Authority, tmp_path: Path
) -> None:
    """SASL_SSL between all: brokers, controllers apart, nodes of the tier and clients, each with its own
    certificate or its own user, who may do no more than they need."""
    ground = SecuredGround(authority, tmp_path)
    home, blows = jvm.build(kafka_version=version), (story.NODE, story.BROKER, story.CONTROLLER)
    plan = story.Plan(consumers=len(CONFIGURATIONS), rounds=1, kafka_home=home, blows=blows)

    def look(site: Site, groups: list[str]) -> Mapping[str, Standing]:
        login = write_properties(tmp_path / "client", ground.login("Java"))
        return by_kafkas_tool(site, groups, "--command-config", str(login))

    result = story.run(plan, print, look, ground)
    assert result.findings == []
    assert len(result.consumers) == len(CONFIGURATIONS)
    assert result.rows[-2].step == "detach"


def test_no_commit_is_lost_no_record_unseen_and_no_group_needs_a_hand(version: str) -> None:
    plan = story.Plan(consumers=CONSUMERS, kafka_home=jvm.build(kafka_version=version))
    result = story.run(plan, print, by_kafkas_tool)
    assert result.findings == []
    assert sum(result.consumers.values()) == CONSUMERS
    assert result.records > 0
    assert [row.step for row in result.rows if "round 2" in row.step][-1] == "round 2: detach"
