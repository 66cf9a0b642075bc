"""What the coordinators are told to do: Kafka's settings with Kafka's defaults."""

from typing import NamedTuple

from actors.ground.carried import Rebuilding, by_name

DISABLED = "disabled"
UPGRADE = "upgrade"
DOWNGRADE = "downgrade"
BIDIRECTIONAL = "bidirectional"
POLICIES = (BIDIRECTIONAL, UPGRADE, DOWNGRADE, DISABLED)
"""The values of `group.consumer.migration.policy`; the first is Kafka's default."""
CLASSIC_ONLY = ":classic"
"""The end of a pattern of `group_heartbeat_hold_clients` whose ConsumerGroupHeartbeat is not held."""

PROTOCOLS_SERVED = ("classic", "consumer")
"""The protocols of groups that the tier has. Classic groups are always served, as in Kafka."""


class GroupSettings(NamedTuple):
    """The settings of the coordinators. Units are in the names. Each field `a_b_ms` is Kafka's setting
    `a.b.ms`."""

    group_coordinator_rebalance_protocols: tuple[str, ...] = PROTOCOLS_SERVED
    """The protocols that are served; a protocol that the tier does not have may be named, as in Kafka's own
    default."""
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 2**31 - 1
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_min_session_timeout_ms: int = 45_000
    group_consumer_max_session_timeout_ms: int = 60_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_min_heartbeat_interval_ms: int = 5_000
    group_consumer_max_heartbeat_interval_ms: int = 15_000
    group_consumer_max_size: int = 2**31 - 1
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    group_consumer_assignor_timeout_ms: int = 5_000
    """A setting of our own: how long a plug-in may take to assign a group (`assignment_jobs`)."""
    group_consumer_client_assignor_timeout_ms: int = 10_000
    """A setting of our own: how long a member may take to assign its group (A11)."""
    group_consumer_assignment_interval_ms: int = 1_000
    group_consumer_migration_policy: str = "bidirectional"
    """Which way groups with members may change their protocol, see
    `actors.coordinator.consumer.migration.policy`."""
    group_consumer_min_assignment_interval_ms: int = 0
    group_consumer_max_assignment_interval_ms: int = 15_000
    group_consumer_regex_refresh_interval_ms: int = 600_000
    group_heartbeat_hold_enable: bool = True
    group_heartbeat_hold_clients: tuple[str, ...] = (
        "apache-kafka-java",
        "librdkafka",
        "confluent-kafka-*",
        "*/*rdkafka-*",
    )
    """A setting of our own: the clients that bear held heartbeats, see `actors.leader.held_heartbeats`."""
    group_heartbeat_budget_per_second: int = 10_000
    """A setting of our own: how many heartbeats a second members of one leader may send, see
    `group_settings.interval_floor_ms`."""
    group_push_pings_missed_max: int = 1
    """A setting of our own: so many requests in a row that a push consumer does not answer in time make it a
    failed one (D4)."""
    group_push_rebalance_retries_max: int = 4
    """A setting of our own: how often a push group's rebalance is tried again before it has failed (D8)."""
    group_push_rebalance_backoff_ms: int = 2_000
    """A setting of our own: how long a push group waits before that (D8)."""
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_minutes: int = 10_080
    offsets_retention_check_interval_ms: int = 600_000
    classic_new_member_join_timeout_ms: int = 300_000
    """How long a new classic member may wait with its JoinGroup parked before it is taken for gone, a
    constant in Kafka (C12)."""
    group_rebalance_batch_max_ms: int = 25_000
    """A setting of our own: the longest wait for more joins and leaves while a storm of them goes on
    (`batching`); 0: no wait, as in Kafka. It is below the 30 s after which some clients give up a JoinGroup
    (sarama's Net.ReadTimeout)."""
    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 604_800_000
    producer_id_expiration_ms: int = 86_400_000
    group_heartbeat_lane_after: int = 5_000
    """A setting of our own: after how many heartbeats and commits that repeat, within five minutes, a leader
    has compiled code take them, see `actors.leader.lane.memory`; 0: never. The default is about as many as
    cost what loading that code costs; it also takes 75 MB."""
    group_heartbeat_lane_linger_ms: int = 20
    """A setting of our own: how long heartbeats and commits of calm connections gather until that code
    looks at them, see `actors.leader.lane.epolls`; 0: not at all."""

    def __reduce__(self) -> Rebuilding:
        return by_name(self)

    @property
    def held_clients(self) -> tuple[str, ...]:
        """Return the patterns of clients whose heartbeats may be held."""
        return self.group_heartbeat_hold_clients if self.group_heartbeat_hold_enable else ()
