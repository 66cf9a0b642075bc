"""kafka-configs for groups, and a Java consumer that feels what it sets: A19, A15."""

from __future__ import annotations

import pytest

from tests.kafka.conftest import SESSION_TIMEOUT_MS, Start
from tests.kafka.tools import CONFIGS, GROUPS, Tools
from tests.polling import until
from tests.tier.consumers import produce

pytestmark = [pytest.mark.kafka, pytest.mark.clients, pytest.mark.timeout(400)]

SESSION = "consumer.session.timeout.ms"
HEARTBEAT = "consumer.heartbeat.interval.ms"


def test_group_config_is_set_shown_listed_and_taken_back(tools: Tools, group_id: str) -> None:
    """A19: before the group is there; the listing of all groups that have configs names it."""
    entity = ("--entity-type", "groups", "--entity-name", group_id)
    tools.run(CONFIGS, *entity, "--alter", "--add-config", f"{SESSION}=50000,{HEARTBEAT}=6000")
    until(lambda: f"{SESSION}=50000" in tools.run(CONFIGS, *entity, "--describe"), "the config shows")
    everything = tools.run(CONFIGS, *entity, "--describe", "--all")
    assert f"DYNAMIC_GROUP_CONFIG:{SESSION}=50000" in everything
    assert f"STATIC_BROKER_CONFIG:group.{SESSION}={SESSION_TIMEOUT_MS}" in everything
    assert "share.isolation.level=read_uncommitted" in everything
    assert f"group {group_id}" in tools.run(CONFIGS, "--entity-type", "groups", "--describe")
    tools.run(CONFIGS, *entity, "--alter", "--delete-config", SESSION)
    until(lambda: SESSION not in tools.run(CONFIGS, *entity, "--describe"), "the config is gone")
    for wrong in (f"{SESSION}=soon", f"{SESSION}=999999", f"{HEARTBEAT}=10000", "no.such=1"):
        refused = tools.attempt(CONFIGS, *entity, "--alter", "--add-config", wrong)
        assert refused.exit_code == 1
        assert "InvalidConfigurationException" in refused.said


def test_group_config_outlives_its_group(
    tools: Tools, start: Start, bootstrap: str, topic: str, group_id: str
) -> None:
    """A19: a KIP-848 consumer joins under it, leaves, the group is deleted; it is still there."""
    entity = ("--entity-type", "groups", "--entity-name", group_id)
    tools.run(CONFIGS, *entity, "--alter", "--add-config", f"{HEARTBEAT}=7000")
    produce(bootstrap, topic, 6)
    member = start(topic, group_id, group_protocol="consumer")
    member.until(lambda: len(member.seen) == 6, "all records read")
    member.ask("close", "closed")
    until(
        lambda: "Deletion of requested" in tools.attempt(GROUPS, "--group", group_id, "--delete").said,
        "the group is deleted",
    )
    assert f"{HEARTBEAT}=7000" in tools.run(CONFIGS, *entity, "--describe")
