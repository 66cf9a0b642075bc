"""What a replica of an offsets partition knows of its tier: the newest metadata image and its ACLs."""

from __future__ import annotations

from actors.ground.image import MetadataImage
from actors.ground.nodes import nodes_of
from actors.ground.spec import NodeSpec, TierSpec
from actors.metadata.wire import unpack_image
from actors.network.authentication import Sasl
from actors.protocol.partitioning import partitioning_of
from actors.security.gate import Gate


class KnownTier:
    """The newest metadata image of the tier, shared by a replica's coordinators, client service and
    leadership.

    Before the first image comes, the tier is as the spec says with which the replica was made.
    """

    def __init__(self, spec: TierSpec) -> None:
        self.spec = spec
        self.image = MetadataImage(
            cluster_id=spec.tier_id,
            offsets_leaders=(-1,) * spec.offsets_partitions,
            unmoved=spec.unmoved,
        )
        self.partitioning = partitioning_of(self.image)
        """How groups are spread over offsets partitions."""
        self.gate = Gate(spec.broker)
        """The gate that decides who may do what."""
        self.sasl = Sasl(spec.sasl_settings)
        """The authentication that finds out who a client is."""
        self.access_changed = False
        """Whether the newest image allows or forbids something that the one before it did not."""

    def take(self, payload: bytes) -> bool:
        """Take an image as the broker pushes it. Return False if a newer one is known."""
        image = unpack_image(payload)
        if image.version < self.image.version:
            return False
        self.image = image
        self.partitioning = partitioning_of(image)
        self.sasl.take(image)
        self.access_changed = self.gate.take(image)
        return True

    @property
    def nodes(self) -> tuple[NodeSpec, ...]:
        """Return the tier's nodes, also those that were added after this replica was made."""
        return nodes_of(self.spec, self.image)
