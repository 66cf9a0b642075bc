"""Check what a client may ask of a broker, as Kafka's brokers do and with their refusals, on kio's entities
(W10).

An entry that may not be served is answered in the place of the broker; the others go on. Requests about
topics are in `topic_checks`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kio.schema.errors import ErrorCode

from actors.ground.acl import Operation, ResourceType
from actors.protocol import entities
from actors.protocol.header import Header
from actors.security import topic_checks
from actors.security.asking import Asking
from actors.security.screening import Screened, parted, refused

CLUSTER_FAILED: Final = ErrorCode.cluster_authorization_failed
MESSAGES: Final = {
    ErrorCode.topic_authorization_failed: topic_checks.FAILED_MESSAGE,
    ErrorCode.group_authorization_failed: "Group authorization failed.",
    ErrorCode.cluster_authorization_failed: "Cluster authorization failed.",
    ErrorCode.transactional_id_authorization_failed: "Transactional Id authorization failed.",
}
_ENTRIES_SINCE: Final = 4
"""The first version of FindCoordinator whose answers have an entry for each key."""
_SHARE_SINCE: Final = 6
"""The first version of FindCoordinator with share groups' states."""
_RESULTS_UNTIL: Final = 1
"""The last version of UpdateFeatures whose answers have an entry for each feature."""
_GROUP: Final = 0
_TRANSACTION: Final = 1
_SHARE: Final = 2
_TOPIC_CONFIGS: Final = 2
_GROUP_CONFIGS: Final = 32


def _answer(header: Header, **fields: Any) -> Any:
    return entities.build(entities.response_class(header.api_key, header.api_version), **fields)


def _entry(header: Header, class_name: str, /, **fields: Any) -> Any:
    return entities.build(entities.nested(header.api_key, header.api_version, class_name), **fields)


def find_coordinator(asking: Asking, header: Header, entity: Any) -> Screened:
    """Screen FindCoordinator: DESCRIBE of each group or transactional id. Only brokers ask for coordinators
    of share groups' states, and only in versions that have them (KIP-932)."""
    key_type = getattr(entity, "key_type", _GROUP)
    if key_type == _SHARE and header.api_version < _SHARE_SINCE:
        return Screened(entity)  # which is invalid
    if header.api_version < _ENTRIES_SINCE:
        error = _coordinator_error(asking, key_type, entity.key)
        if error == ErrorCode.none:
            return Screened(entity)
        fields = _no_coordinator(error) | {"error_message": MESSAGES[error]}
        return refused(_answer(header, **fields))
    errors = {key: _coordinator_error(asking, key_type, key) for key in entity.coordinator_keys}
    allowed, others = parted(entity.coordinator_keys, lambda key: errors[key] == ErrorCode.none)
    if not others:
        return Screened(entity)
    no = {key: _entry(header, "Coordinator", key=key, **_no_coordinator(errors[key])) for key in others}

    def finish(served: Any) -> Any:
        found = {} if served is None else {each.key: each for each in served.coordinators}
        return _answer(header, coordinators=tuple((no | found)[key] for key in entity.coordinator_keys))

    return Screened(topic_checks.replaced(entity, coordinator_keys=allowed) if allowed else None, finish)


def _coordinator_error(asking: Asking, key_type: int, key: str) -> ErrorCode:
    if key_type == _GROUP and not asking.may(Operation.DESCRIBE, ResourceType.GROUP, key):
        return ErrorCode.group_authorization_failed
    if key_type == _TRANSACTION and not asking.may(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, key):
        return ErrorCode.transactional_id_authorization_failed
    if key_type == _SHARE and not asking.may_cluster(Operation.CLUSTER_ACTION):
        return CLUSTER_FAILED
    return ErrorCode.none


def _no_coordinator(error: ErrorCode) -> dict[str, Any]:
    return {"error_code": error, "error_message": "", "node_id": -1, "host": "", "port": -1}


def describe_cluster(asking: Asking, header: Header, entity: Any) -> Screened:
    """Screen DescribeCluster, whose answer may tell what the client may do (KIP-430)."""
    if not entity.include_cluster_authorized_operations:
        return Screened(entity)

    def finish(served: Any) -> Any:
        if served.error_code != ErrorCode.none:
            return served
        return topic_checks.replaced(
            served, cluster_authorized_operations=topic_checks.cluster_operations(asking)
        )

    return Screened(entity, finish)


def init_producer_id(asking: Asking, header: Header, entity: Any) -> Screened:
    """Screen InitProducerId: WRITE of the transactional id, or the right to produce idempotently."""
    error = ErrorCode.none
    if entity.transactional_id is not None:
        if not asking.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, entity.transactional_id):
            error = ErrorCode.transactional_id_authorization_failed
    elif not _may_be_idempotent(asking):
        error = CLUSTER_FAILED
    if error == ErrorCode.none:
        return Screened(entity)
    return refused(_answer(header, error_code=error, producer_id=-1, producer_epoch=-1))


def _may_be_idempotent(asking: Asking) -> bool:
    """Return whether the client may produce idempotently: whoever may write to any topic may (KIP-679)."""
    if asking.may_cluster(Operation.IDEMPOTENT_WRITE):
        return True
    return asking.access.may_with_any(Operation.WRITE, ResourceType.TOPIC)


def _may_configure(asking: Asking, operation: Operation, resource: Any) -> ErrorCode:
    if resource.resource_type == _TOPIC_CONFIGS:
        kind, error = ResourceType.TOPIC, ErrorCode.topic_authorization_failed
    elif resource.resource_type == _GROUP_CONFIGS:
        kind, error = ResourceType.GROUP, ErrorCode.group_authorization_failed
    else:
        return ErrorCode.none if asking.may_cluster(operation) else CLUSTER_FAILED
    return ErrorCode.none if asking.may(operation, kind, resource.resource_name) else error


def _configs(
    asking: Asking, header: Header, entity: Any, operation: Operation, names: tuple[str, str]
) -> Screened:
    """Screen a request about configs. `names` are those of the answer's field of results, and of a result's
    class."""
    field, class_name = names
    errors = [_may_configure(asking, operation, resource) for resource in entity.resources]
    if not any(errors):
        return Screened(entity)
    no = tuple(
        _entry(
            header,
            class_name,
            error_code=error,
            error_message=MESSAGES[error],
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=(),
        )
        for resource, error in zip(entity.resources, errors, strict=True)
        if error
    )
    allowed = tuple(each for each, error in zip(entity.resources, errors, strict=True) if not error)

    def finish(served: Any) -> Any:
        return _answer(header, **{field: (() if served is None else getattr(served, field)) + no})

    return Screened(topic_checks.replaced(entity, resources=allowed) if allowed else None, finish)


def describe_configs(asking: Asking, header: Header, entity: Any) -> Screened:
    """Screen DescribeConfigs: DESCRIBE_CONFIGS of each resource."""
    names = ("results", "DescribeConfigsResult")
    return _configs(asking, header, entity, Operation.DESCRIBE_CONFIGS, names)


def alter_configs(asking: Asking, header: Header, entity: Any) -> Screened:
    """Screen IncrementalAlterConfigs and AlterConfigs: ALTER_CONFIGS of each resource."""
    names = ("responses", "AlterConfigsResourceResponse")
    return _configs(asking, header, entity, Operation.ALTER_CONFIGS, names)


_ClusterRefusal = Callable[[Header, Any], Any]


def _cluster(operation: Operation, refusal: _ClusterRefusal) -> Callable[[Asking, Header, Any], Screened]:
    """Return the check of a request that needs `operation` on the cluster, and is refused with `refusal`
    otherwise."""

    def check(asking: Asking, header: Header, entity: Any) -> Screened:
        return Screened(entity) if asking.may_cluster(operation) else refused(refusal(header, entity))

    return check


def _no_acls(header: Header, entity: Any) -> Any:
    message = MESSAGES[CLUSTER_FAILED]
    return _answer(header, error_code=CLUSTER_FAILED, error_message=message, resources=())


def _no_creation(header: Header, entity: Any) -> Any:
    no = _entry(
        header, "AclCreationResult", error_code=CLUSTER_FAILED, error_message=MESSAGES[CLUSTER_FAILED]
    )
    return _answer(header, results=(no,) * len(entity.creations))


def _no_deletion(header: Header, entity: Any) -> Any:
    message = MESSAGES[CLUSTER_FAILED]
    no = _entry(
        header,
        "DeleteAclsFilterResult",
        error_code=CLUSTER_FAILED,
        error_message=message,
        matching_acls=(),
    )
    return _answer(header, filter_results=(no,) * len(entity.filters))


def _no_credentials(header: Header, entity: Any) -> Any:
    no = _entry(
        header,
        "DescribeUserScramCredentialsResult",
        user="",
        error_code=CLUSTER_FAILED,
        error_message=None,
        credential_infos=(),
    )
    results = (no,) * len(entity.users or ())
    return _answer(header, error_code=CLUSTER_FAILED, error_message=None, results=results)


def _no_alteration(header: Header, entity: Any) -> Any:
    users = dict.fromkeys(each.name for each in (*entity.deletions, *entity.upsertions))
    message = MESSAGES[CLUSTER_FAILED]
    name = "AlterUserScramCredentialsResult"
    return _answer(
        header,
        results=tuple(
            _entry(header, name, user=user, error_code=CLUSTER_FAILED, error_message=message)
            for user in users
        ),
    )


def _no_update(header: Header, entity: Any) -> Any:
    fields = {"results": ()} if header.api_version <= _RESULTS_UNTIL else {}
    message = MESSAGES[CLUSTER_FAILED]
    return _answer(header, error_code=CLUSTER_FAILED, error_message=message, **fields)


def _no_resources(header: Header, entity: Any) -> Any:
    return _answer(header, error_code=CLUSTER_FAILED, config_resources=())


def _no_log_dirs(header: Header, entity: Any) -> Any:
    return _answer(header, error_code=CLUSTER_FAILED, results=())


def _no_election(header: Header, entity: Any) -> Any:
    message = MESSAGES[CLUSTER_FAILED]
    results = tuple(
        _entry(
            header,
            "ReplicaElectionResult",
            topic=topic.topic,
            partition_result=tuple(
                _entry(
                    header,
                    "PartitionResult",
                    partition_id=partition,
                    error_code=CLUSTER_FAILED,
                    error_message=message,
                )
                for partition in topic.partitions
            ),
        )
        for topic in entity.topic_partitions or ()
    )
    return _answer(header, error_code=CLUSTER_FAILED, replica_election_results=results)


def _no_quotas(header: Header, entity: Any) -> Any:
    message = MESSAGES[CLUSTER_FAILED]
    return _answer(header, error_code=CLUSTER_FAILED, error_message=message, entries=None)


def _no_quota_changes(header: Header, entity: Any) -> Any:
    message = MESSAGES[CLUSTER_FAILED]
    entries = tuple(
        _entry(
            header,
            "EntryData",
            error_code=CLUSTER_FAILED,
            error_message=message,
            entity=tuple(
                _entry(header, "EntityData", entity_type=part.entity_type, entity_name=part.entity_name)
                for part in entry.entity
            ),
        )
        for entry in entity.entries
    )
    return _answer(header, entries=entries)


def write_markers(asking: Asking, header: Header, entity: Any) -> Screened:
    """Screen WriteTxnMarkers, which comes from other brokers, or from an administrator who aborts a
    transaction that hangs (KIP-664)."""
    if asking.may_cluster(Operation.ALTER) or asking.may_cluster(Operation.CLUSTER_ACTION):
        return Screened(entity)
    markers = tuple(
        _entry(
            header,
            "WritableTxnMarkerResult",
            producer_id=marker.producer_id,
            topics=tuple(_no_marker(header, topic) for topic in marker.topics),
        )
        for marker in entity.markers
    )
    return refused(_answer(header, markers=markers))


def _no_marker(header: Header, topic: Any) -> Any:
    name = "WritableTxnMarkerPartitionResult"
    return _entry(
        header,
        "WritableTxnMarkerTopicResult",
        name=topic.name,
        partitions=tuple(
            _entry(header, name, partition_index=index, error_code=CLUSTER_FAILED)
            for index in topic.partition_indexes
        ),
    )


describe_log_dirs = _cluster(Operation.DESCRIBE, _no_log_dirs)
elect_leaders = _cluster(Operation.ALTER, _no_election)
list_config_resources = _cluster(Operation.DESCRIBE_CONFIGS, _no_resources)
update_features = _cluster(Operation.ALTER, _no_update)
describe_quotas = _cluster(Operation.DESCRIBE_CONFIGS, _no_quotas)
alter_quotas = _cluster(Operation.ALTER_CONFIGS, _no_quota_changes)
describe_acls = _cluster(Operation.DESCRIBE, _no_acls)
create_acls = _cluster(Operation.ALTER, _no_creation)
delete_acls = _cluster(Operation.ALTER, _no_deletion)
describe_credentials = _cluster(Operation.DESCRIBE, _no_credentials)
alter_credentials = _cluster(Operation.ALTER, _no_alteration)
