"""One row of the catalog: all that is to be known of an API but how it is answered.

Who answers is named (`served_by`) and has the handler under the same key: a connection in `actors.network`, a
broker in `actors.api.broker_apis`, a coordinator in an area of `actors.coordinator`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from actors.ground.contract import Request
from actors.ground.image import MetadataImage
from actors.protocol.header import Header
from actors.protocol.messages import GroupRequest
from actors.security.asking import Asking
from actors.security.authorizer import Access
from actors.security.screening import Screened

NEVER_FLEXIBLE: Final = 2**15
"""Above every int16 version."""

BodyCheck = Callable[[Access, MetadataImage, int, Any], Screened]
"""A check takes a client's rights, the image, the API's version and a neutral request, and returns what of
the request may be served."""
EntityCheck = Callable[[Asking, Header, Any], Screened]
"""A check takes who asks, the header and kio's entity, and returns what of the entity may be served."""

Refusal = Callable[[Request, ErrorCode, str | None], Any]
"""A refusal takes a request, the error, and a message for answers that have a place for one; it returns the
neutral answer that refuses the whole request."""
HotRequest = tuple[int, int, Callable[[bytes, int], GroupRequest]]
"""First and last version, and the function that reads a frame from an offset on."""
HotAnswer = tuple[int, int, Callable[[int, Any], bytes]]
"""First and last version, and the function that makes the whole frame of a correlation id and an answer."""


class Server(enum.Enum):
    """Who answers a request."""

    CONNECTION = "connection"
    """Whoever has the connection, before anything else: versions and logins."""
    BROKER = "broker"
    COORDINATOR = "coordinator"
    """The leader of the group's offsets partition, or of the transactional id's."""


class Batch(NamedTuple):
    """The groups that one request names, which may live in several offsets partitions."""

    asked: str
    """The request's field of them, in kio's entity and in the neutral request."""
    asked_id: Callable[[Any], str]
    """Returns the group id of an entry of the neutral request."""
    answered: str
    """The neutral answer's field of them."""
    answered_id: Callable[[Any], str]
    """Returns the group id of an entry of the neutral answer."""
    answer: Callable[[tuple[Any, ...]], Any]
    """Makes the neutral answer of its entries."""
    entity_field: str
    """The field of entries of the answer's entity."""
    entity_id: str
    """The group id's field in an entry of an entity, asked or answered."""


class Listing(NamedTuple):
    """What every leader lists of its own, and what is joined to one answer (W9)."""

    answered: str
    """The neutral answer's field of entries."""
    entity_field: str
    """The field of entries of the answer's entity."""


class Coordinated(NamedTuple):
    """How an API's requests and answers look to a coordinator, which knows no version of Kafka's schemas."""

    decode: Callable[[Any], Any]
    """Makes the neutral request (`actors.protocol.messages`) of kio's entity."""
    authorization: BodyCheck
    refuse: Refusal
    encode: Callable[[int, Any], Any] | None = None
    """Makes kio's entity of a version and the neutral answer. It is None where `hot_answers` has all
    versions."""
    batch: Batch | None = None
    """It is None if the request speaks of one group, or of all."""
    listing: Listing | None = None
    """It is None if the request does not go to all leaders."""
    takes_connection: bool = False
    """The first such request on a connection makes it a member's: it is handed over to the leader."""
    hot_requests: tuple[HotRequest, ...] = ()
    """Versions that are read by hand in their common shape, without an entity."""
    hot_answers: tuple[HotAnswer, ...] = ()
    """Versions whose answers are packed by hand."""


class Api(NamedTuple):
    """One API that is answered."""

    key: int
    min_version: int
    max_version: int
    flexible_since: int
    """The first version with compact fields and tags (KIP-482). kio's classes say so too, but importing them
    all at start would be slow; a test compares the two."""
    served_by: Server
    authorization: EntityCheck | None = None
    """It is None if everybody may ask, or the coordinator's own check decides."""
    always_screened: bool = False
    """The answer may tell what the client may do, with an authorizer or without."""
    coordinated: Coordinated | None = None
    """It is None if no coordinator ever answers the request."""
    announced: bool = True
    """Whether ApiVersions tells of it. Kafka answers requests that it does not tell of."""
    told_min_version: int | None = None
    """The first version that ApiVersions tells, if it is another one than the first that is served."""

    @property
    def versions(self) -> range:
        return range(self.min_version, self.max_version + 1)

    @property
    def first_told(self) -> int:
        """Return the first version that ApiVersions tells."""
        return self.min_version if self.told_min_version is None else self.told_min_version
