"""What is asked of the upstream cluster's active controller, and what it answers, with the names of Kafka's
fields. Ids that are UUIDs to Kafka are their 16 bytes here.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from actors.upstream.image import Endpoint
from actors.upstream.levels import FeatureRange

PREFERRED, UNCLEAN = 0, 1
"""The kinds of an election, with their numbers on the wire."""


class RegisterBroker(NamedTuple):
    """BrokerRegistration."""

    broker_id: int
    cluster_id: str
    incarnation_id: bytes
    listeners: tuple[Endpoint, ...]
    features: tuple[FeatureRange, ...]
    rack: str | None
    log_dirs: tuple[bytes, ...]
    previous_broker_epoch: int


class BrokerHeartbeat(NamedTuple):
    """BrokerHeartbeat. `cordoned_log_dirs` None leaves what is cordoned as it is."""

    broker_id: int
    broker_epoch: int
    current_metadata_offset: int
    want_fence: bool = False
    want_shut_down: bool = False
    cordoned_log_dirs: tuple[bytes, ...] | None = None


class UnregisterBroker(NamedTuple):
    """UnregisterBroker: the broker leaves every ISR and is forgotten."""

    broker_id: int


class ReassignedPartition(NamedTuple):
    """The replicas that a partition is to have; None takes back what was asked before."""

    topic: str
    partition_index: int
    replicas: tuple[int, ...] | None


class AlterPartitionReassignments(NamedTuple):
    """AlterPartitionReassignments."""

    partitions: tuple[ReassignedPartition, ...]


class AlteredPartition(NamedTuple):
    """The ISR that a partition's leader says it has. Each of the ISR is a broker's id and epoch."""

    topic_id: bytes
    partition_index: int
    leader_epoch: int
    partition_epoch: int
    new_isr_with_epochs: tuple[tuple[int, int], ...]
    topic: str = ""
    """The name of the topic, which is not sent."""


class AlterPartition(NamedTuple):
    """AlterPartition, as the leader of all these partitions sends it."""

    broker_id: int
    broker_epoch: int
    partitions: tuple[AlteredPartition, ...]


class ElectLeaders(NamedTuple):
    """ElectLeaders, for partitions that are given by topic and index."""

    election_type: int
    partitions: tuple[tuple[str, int], ...]


class CreateTopic(NamedTuple):
    """CreateTopics, for one topic whose partitions are placed by hand."""

    topic: str
    assignments: tuple[tuple[int, ...], ...]
    """The replicas of each partition, the one that is to lead first."""
    configs: tuple[tuple[str, str], ...] = ()


PartitionsRequest = AlterPartitionReassignments | AlterPartition | ElectLeaders
Request = RegisterBroker | BrokerHeartbeat | UnregisterBroker | PartitionsRequest | CreateTopic


class RegistrationAnswer(NamedTuple):
    """The answer to BrokerRegistration."""

    error_code: ErrorCode
    broker_epoch: int = -1


class HeartbeatAnswer(NamedTuple):
    """The answer to BrokerHeartbeat."""

    error_code: ErrorCode
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False


class UnregistrationAnswer(NamedTuple):
    """The answer to UnregisterBroker."""

    error_code: ErrorCode
    error_message: str | None = None


class PartitionErrors(NamedTuple):
    """The answer to a request about partitions, which are given by topic (AlterPartition: by topic id) and
    index."""

    error_code: ErrorCode
    partitions: Mapping[tuple[str | bytes, int], ErrorCode]
    error_message: str | None = None


class CreationAnswer(NamedTuple):
    """The answer to CreateTopics."""

    error_code: ErrorCode
    error_message: str | None = None


Answer = RegistrationAnswer | HeartbeatAnswer | UnregistrationAnswer | PartitionErrors | CreationAnswer


class Needed(NamedTuple):
    """The versions of a request that this release sends."""

    api: str
    """The API's name, as the raw client has it."""
    api_key: int
    low: int
    high: int


NEEDED_VERSIONS: Final[Mapping[type[Request], Needed]] = {
    # Older ones carry no log directories, or not the epoch before.
    RegisterBroker: Needed("broker_registration", 62, 3, 4),
    BrokerHeartbeat: Needed("broker_heartbeat", 63, 1, 2),
    UnregisterBroker: Needed("unregister_broker", 64, 0, 0),
    AlterPartitionReassignments: Needed("alter_partition_reassignments", 45, 0, 1),
    # From 3 on it carries the epochs of the ISR (KIP-841).
    AlterPartition: Needed("alter_partition", 56, 3, 3),
    ElectLeaders: Needed("elect_leaders", 43, 2, 2),
    CreateTopic: Needed("create_topics", 19, 5, 7),
}
"""What is sent, and in which versions."""
CORDONING_VERSION: Final = 2
"""The first version of BrokerHeartbeat that carries what is cordoned."""
