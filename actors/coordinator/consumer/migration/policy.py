"""Which conversions of groups with members are allowed (G1). Empty groups always change their kind."""

from __future__ import annotations

from actors.ground.settings import BIDIRECTIONAL, DISABLED, DOWNGRADE, UPGRADE, GroupSettings


def allows_upgrade(settings: GroupSettings) -> bool:
    return settings.group_consumer_migration_policy in (UPGRADE, BIDIRECTIONAL)


def allows_downgrade(settings: GroupSettings) -> bool:
    return settings.group_consumer_migration_policy in (DOWNGRADE, BIDIRECTIONAL)


def allows_classic_members(settings: GroupSettings) -> bool:
    """Whether members of the classic protocol may join a consumer group."""
    return settings.group_consumer_migration_policy != DISABLED
