"""Answer the requests that any actor with the metadata image can answer at once, wherever the connection
is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from actors.api.metadata import find_coordinator_answer, metadata_answer
from actors.catalog import codec
from actors.catalog.api_versions import Place, Told
from actors.ground.image import MetadataImage
from actors.protocol.api_keys import API_VERSIONS, FIND_COORDINATOR, METADATA
from actors.protocol.header import Header
from actors.security.sasl import refused_again
from actors.security.screening import Screened

Screen = Callable[[Header, Any], Screened]
"""A function that leaves of a request what its client may ask."""


class View(NamedTuple):
    """What an actor knows of the tier when it answers from its metadata."""

    image: MetadataImage
    offsets_leaders: Mapping[int, int]
    """Offsets partition -> node id of its leader, where that is fresher news than the image."""
    node_id: int
    """The actor's own node."""
    own_to_all: bool = False
    """Whether all clients are told of requests of our own (`group.own.apis.advertised`)."""


def answer_in_place(
    view: View, screen: Screen, header: Header, frame: bytes, body_offset: int
) -> bytes | None:
    """Return the answer to ApiVersions, Metadata, FindCoordinator, or to SASL's requests, which are too late
    here; None if the request is for the broker to work on."""
    if header.api_key == API_VERSIONS:
        # A node that has not heard of its tier yet cannot say who it is.
        place = Place(view.image.cluster_id, view.node_id) if view.image.nodes else None
        told = Told(view.image.features, view.own_to_all)
        return codec.api_versions_answer(header, frame, body_offset, place, told)
    if header.api_key not in (METADATA, FIND_COORDINATOR):
        return refused_again(header)
    allowed, finish = screen(header, codec.decode_entity(header, frame, body_offset))
    answer = None
    if allowed is not None:
        if header.api_key == METADATA:
            answer = metadata_answer(view.image, view.node_id, header.api_version, allowed, creates=True)
        else:
            answer = find_coordinator_answer(view.image, view.offsets_leaders, header.api_version, allowed)
        if answer is None:
            return None
    if finish is not None:
        answer = finish(answer)
    return codec.encode_entity(header.api_key, header.api_version, header.correlation_id, answer)
