"""What members that assign may ask (A9, A10, W10, W11)."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from actors.ground.acl import Acl
from actors.protocol.client_assignor_messages import (
    InstallAssignmentRequest,
    InstallAssignmentResponse,
    InstalledMember,
    PrepareAssignmentRequest,
    PrepareAssignmentResponse,
    PreparedTopic,
)
from actors.security.client_assignor_checks import HIDDEN_MESSAGE, install, prepare
from tests.coordinator.driver import image_of, topic_id
from tests.security.test_authorizer import DESCRIBE, GROUP, READ, access, allow

IMAGE = image_of(seen=1, hidden=1)
SEEN, HIDDEN = topic_id(1), topic_id(2)
OF_GROUP: Acl = allow("g", READ, resource_type=GROUP)
ASKED = PrepareAssignmentRequest("g", "m", 3)


def _result(*topics: bytes) -> InstallAssignmentRequest:
    member = InstalledMember("m", 0, tuple((topic, (0,)) for topic in topics), -1, b"")
    return InstallAssignmentRequest("g", "m", 3, 4, 0, None, (member,))


def test_without_read_of_the_group_nothing_is_asked() -> None:
    rights = access(allow("seen", DESCRIBE))
    for screened in (prepare(rights, IMAGE, 0, ASKED), install(rights, IMAGE, 0, _result(SEEN))):
        assert screened.body is None
        assert screened.finish is not None
        assert screened.finish(None).error_code == ErrorCode.group_authorization_failed


def test_a_group_with_a_topic_that_may_not_be_seen_is_not_handed_out() -> None:
    screened = prepare(access(OF_GROUP, allow("seen", DESCRIBE)), IMAGE, 0, ASKED)
    assert screened.body == ASKED
    assert screened.finish is not None
    shown = PrepareAssignmentResponse(0, topics=(PreparedTopic(SEEN, "seen", 1, ()),))
    assert screened.finish(shown) == shown
    both = shown._replace(topics=(*shown.topics, PreparedTopic(HIDDEN, "hidden", 1, ())))
    assert screened.finish(both) == PrepareAssignmentResponse(
        ErrorCode.topic_authorization_failed, HIDDEN_MESSAGE
    )


def test_a_result_that_names_a_topic_that_may_not_be_seen_is_refused() -> None:
    rights = access(OF_GROUP, allow("seen", DESCRIBE))
    assert install(rights, IMAGE, 0, _result(SEEN)).body == _result(SEEN)
    unknown = _result(b"?" * 16)
    assert install(rights, IMAGE, 0, unknown).body == unknown, "the coordinator's to refuse"
    screened = install(rights, IMAGE, 0, _result(SEEN, HIDDEN))
    assert screened.finish is not None
    assert screened.finish(None) == InstallAssignmentResponse(ErrorCode.topic_authorization_failed)
