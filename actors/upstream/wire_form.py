"""Requests to the upstream's controller as the raw client takes them, and its answers as it gives them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any
from uuid import UUID

from actors.upstream.requests import (
    AlterPartition,
    AlterPartitionReassignments,
    Answer,
    BrokerHeartbeat,
    CreateTopic,
    CreationAnswer,
    ElectLeaders,
    HeartbeatAnswer,
    PartitionErrors,
    RegisterBroker,
    RegistrationAnswer,
    Request,
    UnregisterBroker,
    UnregistrationAnswer,
)

Fields = dict[str, Any]


def fields_of(request: Request, version: int, timeout_ms: int) -> Fields:
    """Return a request's fields in that version."""
    match request:
        case RegisterBroker():
            return _registration(request)
        case BrokerHeartbeat():
            return _heartbeat(request, version)
        case UnregisterBroker():
            return {"broker_id": request.broker_id}
        case AlterPartition():
            return _alter_partition(request)
        case AlterPartitionReassignments():
            return _reassignments(request, timeout_ms)
        case ElectLeaders():
            topics = [
                {"topic": topic, "partitions": [index for _, index in rows]}
                for topic, rows in _by(request.partitions)
            ]
            return {
                "election_type": request.election_type,
                "topic_partitions": topics,
                "timeout": timeout_ms,
            }
        case CreateTopic():
            return _creation(request, timeout_ms)


def answer_of(request: Request, answer: Mapping[str, Any]) -> Answer:
    """Return what the fields of the answer to a request say."""
    match request:
        case RegisterBroker():
            return RegistrationAnswer(answer["error_code"], answer["broker_epoch"])
        case BrokerHeartbeat():
            return HeartbeatAnswer(
                answer["error_code"],
                answer["is_caught_up"],
                answer["is_fenced"],
                answer["should_shut_down"],
            )
        case UnregisterBroker():
            return UnregistrationAnswer(answer["error_code"], answer["error_message"])
        case AlterPartition():
            errors = {
                (topic["topic_id"].bytes, row["partition_index"]): row["error_code"]
                for topic in answer["topics"]
                for row in topic["partitions"]
            }
            return PartitionErrors(answer["error_code"], errors)
        case AlterPartitionReassignments():
            rows = {
                (topic["name"], row["partition_index"]): row["error_code"]
                for topic in answer["responses"]
                for row in topic["partitions"]
            }
            return PartitionErrors(answer["error_code"], rows, answer["error_message"])
        case ElectLeaders():
            results = {
                (topic["topic"], row["partition_id"]): row["error_code"]
                for topic in answer["replica_election_results"]
                for row in topic["partition_result"]
            }
            return PartitionErrors(answer["error_code"], results)
        case CreateTopic():
            (row,) = answer["topics"]
            return CreationAnswer(row["error_code"], row["error_message"])


def _registration(request: RegisterBroker) -> Fields:
    return {
        **request._asdict(),
        "incarnation_id": UUID(bytes=request.incarnation_id),
        "listeners": [each._asdict() for each in request.listeners],
        "features": [each._asdict() for each in request.features],
        "log_dirs": _uuids(request.log_dirs),
        "is_migrating_zk_broker": False,
    }


def _heartbeat(request: BrokerHeartbeat, version: int) -> Fields:
    fields = request._asdict()
    cordoned = fields.pop("cordoned_log_dirs")
    if version >= 2:
        fields["cordoned_log_dirs"] = None if cordoned is None else _uuids(cordoned)
    return fields


def _alter_partition(request: AlterPartition) -> Fields:
    topics = [
        {
            "topic_id": UUID(bytes=topic_id),
            "partitions": [
                {
                    "partition_index": row.partition_index,
                    "leader_epoch": row.leader_epoch,
                    "partition_epoch": row.partition_epoch,
                    "leader_recovery_state": 0,
                    "new_isr_with_epochs": [
                        {"broker_id": broker_id, "broker_epoch": epoch}
                        for broker_id, epoch in row.new_isr_with_epochs
                    ],
                }
                for row in rows
            ],
        }
        for topic_id, rows in _by(request.partitions)
    ]
    return {"broker_id": request.broker_id, "broker_epoch": request.broker_epoch, "topics": topics}


def _reassignments(request: AlterPartitionReassignments, timeout_ms: int) -> Fields:
    topics = [
        {
            "name": topic,
            "partitions": [
                {
                    "partition_index": row.partition_index,
                    "replicas": None if row.replicas is None else list(row.replicas),
                }
                for row in rows
            ],
        }
        for topic, rows in _by(request.partitions)
    ]
    return {"timeout": timeout_ms, "topics": topics}


def _creation(request: CreateTopic, timeout_ms: int) -> Fields:
    topic = {
        "name": request.topic,
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": [
            {"partition_index": index, "broker_ids": list(replicas)}
            for index, replicas in enumerate(request.assignments)
        ],
        "configs": [{"name": name, "value": value} for name, value in request.configs],
    }
    return {"topics": [topic], "timeout": timeout_ms, "validate_only": False}


def _by(partitions: Any) -> Iterator[tuple[Any, list[Any]]]:
    """Partitions by their topic, which is their first field."""
    for topic, rows in groupby(sorted(partitions), key=lambda row: row[0]):
        yield topic, list(rows)


def _uuids(ids: tuple[bytes, ...]) -> list[UUID]:
    return [UUID(bytes=each) for each in ids]
