"""Who asks, and what about: what the checks of a broker's APIs need to know."""

from __future__ import annotations

from typing import NamedTuple

from actors.ground.acl import Operation, ResourceType
from actors.ground.image import MetadataImage
from actors.security.authorizer import Access


class Asking(NamedTuple):
    """One client that asks, in front of one metadata image."""

    access: Access
    image: MetadataImage
    auto_create: bool
    """Whether `auto.create.topics.enable` is set."""

    def may(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        return self.access.may(operation, resource_type, name)

    def may_topic(self, operation: Operation, name: str) -> bool:
        return self.access.may(operation, ResourceType.TOPIC, name)

    def may_cluster(self, operation: Operation) -> bool:
        return self.access.may_cluster(operation)
