"""Requests that any actor with the metadata image can answer at once, wherever the connection is."""

from __future__ import annotations

from collections.abc import Mapping

from actors.api.metadata import find_coordinator_answer, metadata_answer
from actors.metadata.image import MetadataImage
from actors.protocol import codec
from actors.protocol.api_keys import API_VERSIONS, FIND_COORDINATOR, METADATA
from actors.protocol.headers import Header


def answer_in_place(
    image: MetadataImage,
    offsets_leaders: Mapping[int, int],
    node_id: int,
    header: Header,
    frame: bytes,
    body_offset: int,
) -> bytes | None:
    """The answer to ApiVersions, Metadata or FindCoordinator; None: it is for the broker to work on.

    `offsets_leaders` (partition -> node id) holds fresher news than the image. Raises MalformedRequest.
    """
    if header.api_key == API_VERSIONS:
        return codec.api_versions_answer(header, frame, body_offset)
    if header.api_key == METADATA:
        entity = codec.decode_entity(header, frame, body_offset)
        answer = metadata_answer(image, node_id, header.api_version, entity)
    elif header.api_key == FIND_COORDINATOR:
        entity = codec.decode_entity(header, frame, body_offset)
        answer = find_coordinator_answer(image, offsets_leaders, header.api_version, entity)
    else:
        return None
    if answer is None:
        return None
    return codec.encode_entity(header.api_key, header.api_version, header.correlation_id, answer)
