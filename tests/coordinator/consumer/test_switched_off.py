"""A26: a coordinator that serves classic groups only."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from actors.protocol.api_keys import CONSUMER_GROUP_DESCRIBE
from actors.protocol.messages import ConsumerGroupDescribeRequest
from tests.coordinator.consumer.driver import GROUP, Client, Driver

CLASSIC_ONLY = ("classic",)


def test_a_group_from_before_hears_nothing_more_and_keeps_its_offsets() -> None:
    """A26: a tier that had consumer groups is started again without their protocol. Their members' heartbeats
    and the group's description are refused; what they commit is taken as before."""
    driver = Driver()
    member = Client(driver, "a").join()
    driver.settings = driver.settings._replace(group_coordinator_rebalance_protocols=CLASSIC_ONLY)
    driver.failover()
    driver.refused(ErrorCode.unsupported_version, "a", member.epoch)
    driver.refused(ErrorCode.unsupported_version, "a", -1)
    driver.refused(ErrorCode.unsupported_version, "", -7, group_id="")
    driver.refused_join(ErrorCode.unsupported_version, "b")
    asked = ConsumerGroupDescribeRequest((GROUP, "other"))
    described = driver.ask(CONSUMER_GROUP_DESCRIBE, asked, 1).groups
    assert [each.error_code for each in described] == [ErrorCode.unsupported_version] * 2
    driver.check_commit("a", member.epoch, orders=(0,))


def test_a_protocol_that_no_kind_has_switches_nothing() -> None:
    """A26: Kafka's own default names streams groups, which are not served anyway."""
    driver = Driver()
    protocols = ("classic", "consumer", "streams")
    driver.settings = driver.settings._replace(group_coordinator_rebalance_protocols=protocols)
    driver.failover()
    assert Client(driver, "a").join().epoch == 2
