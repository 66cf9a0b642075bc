"""Check what members that assign may ask: READ of the group, and DESCRIBE of every topic that they would see
or name (A9, A10)."""

from actors.ground.acl import Operation, ResourceType
from actors.ground.image import MetadataImage
from actors.protocol.client_assignor_messages import (
    InstallAssignmentRequest,
    InstallAssignmentResponse,
    PrepareAssignmentRequest,
    PrepareAssignmentResponse,
)
from actors.security.authorizer import Access
from actors.security.group_checks import GROUP_FAILED, TOPIC_FAILED
from actors.security.screening import Screened, refused

HIDDEN_MESSAGE = "The group subscribes to topic(s) that the client is not authorized to describe."


def prepare(
    access: Access, image: MetadataImage, api_version: int, body: PrepareAssignmentRequest
) -> Screened:
    """Screen ConsumerGroupPrepareAssignment: a group with a topic that is not to be seen is not shown."""
    if not access.may(Operation.READ, ResourceType.GROUP, body.group_id):
        return refused(PrepareAssignmentResponse(GROUP_FAILED))

    def finish(served: PrepareAssignmentResponse) -> PrepareAssignmentResponse:
        if all(access.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.name) for topic in served.topics):
            return served
        return PrepareAssignmentResponse(TOPIC_FAILED, HIDDEN_MESSAGE)

    return Screened(body, finish)


def install(
    access: Access, image: MetadataImage, api_version: int, body: InstallAssignmentRequest
) -> Screened:
    """Screen ConsumerGroupInstallAssignment. Topics that do not exist are the coordinator's to refuse."""
    if not access.may(Operation.READ, ResourceType.GROUP, body.group_id):
        return refused(InstallAssignmentResponse(GROUP_FAILED))
    topic_ids = {topic_id for member in body.members for topic_id, _ in member.topic_partitions}
    known = (image.topics_by_id[topic_id].name for topic_id in topic_ids if topic_id in image.topics_by_id)
    if all(access.may(Operation.DESCRIBE, ResourceType.TOPIC, name) for name in known):
        return Screened(body)
    return refused(InstallAssignmentResponse(TOPIC_FAILED))
