"""What the coordinators are told to do: Kafka's settings with Kafka's defaults (features.md section 5)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """Units are in the names. Each field `a_b_ms` is Kafka's setting `a.b.ms`."""

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 2**31 - 1
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_max_size: int = 2**31 - 1
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    group_consumer_assignment_interval_ms: int = 1_000
    offset_metadata_max_bytes: int = 4_096
    classic_new_member_join_timeout_ms: int = 300_000
    """A constant in Kafka (C12)."""
