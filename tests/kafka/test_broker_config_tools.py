"""kafka-configs for brokers and kafka-features against a tier: W43, W44."""

from __future__ import annotations

import pytest

from tests.kafka.tools import CONFIGS, FEATURES, Tools
from tests.polling import until

pytestmark = [pytest.mark.kafka, pytest.mark.clients, pytest.mark.timeout(400)]

MESSAGE = "message.max.bytes"


def test_w43_a_setting_is_changed_for_all_nodes_and_for_one_and_taken_back(tools: Tools) -> None:
    everyone = ("--entity-type", "brokers", "--entity-default")
    one = ("--entity-type", "brokers", "--entity-name", "1")
    tools.run(CONFIGS, *everyone, "--alter", "--add-config", f"{MESSAGE}=2000000")
    until(lambda: f"{MESSAGE}=2000000" in tools.run(CONFIGS, *everyone, "--describe"), "all nodes have it")
    tools.run(CONFIGS, *one, "--alter", "--add-config", f"{MESSAGE}=3000000")
    shown = tools.run(CONFIGS, *one, "--describe")
    assert f"DYNAMIC_BROKER_CONFIG:{MESSAGE}=3000000" in shown
    assert f"DYNAMIC_DEFAULT_BROKER_CONFIG:{MESSAGE}=2000000" in shown
    refused = tools.attempt(CONFIGS, *one, "--alter", "--add-config", "node.id=7")
    assert refused.exit_code == 1
    assert "Cannot update these configs dynamically" in refused.said
    for entity in (one, everyone):
        tools.run(CONFIGS, *entity, "--alter", "--delete-config", MESSAGE)
        until(lambda: MESSAGE not in tools.run(CONFIGS, *entity, "--describe"), "it is gone")  # noqa: B023


def test_w44_features_are_described_and_changed(tools: Tools) -> None:
    described = tools.run(FEATURES, "describe")
    assert "group.version" in described
    tools.run(FEATURES, "downgrade", "--feature", "group.version=0")
    try:
        lines = tools.run(FEATURES, "describe").splitlines()
        (line,) = [each for each in lines if "group.version" in each]
        assert "FinalizedVersionLevel: 0" in line
    finally:
        tools.run(FEATURES, "upgrade", "--feature", "group.version=1")
    refused = tools.attempt(FEATURES, "downgrade", "--feature", "metadata.version=32")
    assert refused.exit_code == 1
