"""The answer that refuses a whole command with one error code: each of its entries gets it."""

from __future__ import annotations

from typing import assert_never

from actors.metadata.commands import (
    AllocateProducerIds,
    AlterTopicConfigs,
    AlterTopicConfigsResult,
    Command,
    CommandResult,
    CreatedTopic,
    CreatePartitions,
    CreatePartitionsResult,
    CreateTopics,
    CreateTopicsResult,
    DeletedTopic,
    DeleteTopics,
    DeleteTopicsResult,
    ForgetReplica,
    Outcome,
    PlaceGroup,
    ProducerIdBlock,
    RegisterNode,
    ReportController,
    ReportLeader,
    RestoreTopics,
    SeedPlacement,
    SetNodeAlive,
    TopicOutcome,
)


def refused(command: Command, error_code: int, message: str | None = None) -> CommandResult:
    match command:
        case CreateTopics():
            return CreateTopicsResult(
                tuple(CreatedTopic(topic.name, error_code, message) for topic in command.topics)
            )
        case DeleteTopics():
            return DeleteTopicsResult(
                tuple(
                    DeletedTopic(topic.name, topic.topic_id, error_code, message) for topic in command.topics
                )
            )
        case CreatePartitions():
            return CreatePartitionsResult(
                tuple(TopicOutcome(topic.name, error_code, message) for topic in command.topics)
            )
        case AlterTopicConfigs():
            return AlterTopicConfigsResult(
                tuple(TopicOutcome(change.topic, error_code, message) for change in command.topics)
            )
        case AllocateProducerIds():
            return ProducerIdBlock(error_code)
        case RegisterNode() | SetNodeAlive() | ReportLeader() | ReportController() | RestoreTopics():
            return Outcome(error_code, message)
        case SeedPlacement() | PlaceGroup() | ForgetReplica():
            return Outcome(error_code, message)
    assert_never(command)
