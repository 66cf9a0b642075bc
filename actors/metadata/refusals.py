"""Refuse a whole command with one error code, which each of its entries gets."""

from __future__ import annotations

from typing import assert_never

from actors.metadata.commands import (
    AllocateProducerIds,
    AlterBrokerConfigs,
    AlterBrokerConfigsResult,
    AlterCredentials,
    AlterCredentialsResult,
    AlteredUser,
    AlterGroupConfigs,
    AlterGroupConfigsResult,
    AlterTopicConfigs,
    AlterTopicConfigsResult,
    BrokerOutcome,
    Command,
    CommandResult,
    CreateAcls,
    CreateAclsResult,
    CreatedTopic,
    CreatePartitions,
    CreatePartitionsResult,
    CreateTopics,
    CreateTopicsResult,
    DeleteAcls,
    DeleteAclsResult,
    DeletedAcls,
    DeletedTopic,
    DeleteTopics,
    DeleteTopicsResult,
    ForgetReplica,
    FoundTier,
    GroupOutcome,
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
    UpdateFeatures,
)
from actors.metadata.node_commands import AddNode, MoveNode, RemoveNode, SetNodeDuty
from actors.metadata.split_commands import NoteDropped, NoteMoved, SplitPartitions
from actors.metadata.upstream_commands import SetUpstreamGoal


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
        case AlterGroupConfigs():
            return AlterGroupConfigsResult(
                tuple(GroupOutcome(change.group_id, error_code, message) for change in command.groups)
            )
        case AlterBrokerConfigs():
            return AlterBrokerConfigsResult(
                tuple(BrokerOutcome(change.broker, error_code, message) for change in command.brokers)
            )
        case AllocateProducerIds():
            return ProducerIdBlock(error_code)
        case RegisterNode() | SetNodeAlive() | ReportLeader() | ReportController() | RestoreTopics():
            return Outcome(error_code, message)
        case AddNode() | SetNodeDuty() | MoveNode() | RemoveNode():
            return Outcome(error_code, message)
        case SeedPlacement() | PlaceGroup() | ForgetReplica() | UpdateFeatures() | FoundTier():
            return Outcome(error_code, message)
        case SplitPartitions() | NoteMoved() | NoteDropped() | SetUpstreamGoal():
            return Outcome(error_code, message)
        case CreateAcls():
            return CreateAclsResult(tuple(Outcome(error_code, message) for _ in command.acls))
        case DeleteAcls():
            return DeleteAclsResult(tuple(DeletedAcls((), error_code, message) for _ in command.filters))
        case AlterCredentials():
            users = dict.fromkeys(change.user for change in command.changes)
            return AlterCredentialsResult(tuple(AlteredUser(user, error_code, message) for user in users))
    assert_never(command)
