"""What the reconcile of upstream leaders says for the log: what others had changed, and what was done."""

from typing import NamedTuple

from actors.upstream.moves import Cancel, Elect, Move, ToIsr


class PutRight(NamedTuple):
    """Somebody has moved a partition of ours though Raft's leader has not changed: an operator, a balancer,
    or the controller, because it had fenced the leader's node for a while."""

    topic: str
    partition_index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    wanted: int
    term: int
    pause_ms: int
    """How long it is left as it is, because it was moved again and again."""

    def __str__(self) -> str:
        when = f"in {self.pause_ms} ms" if self.pause_ms else "now"
        return (
            f"{self.topic}-{self.partition_index} was moved upstream to leader {self.leader} (epoch "
            f"{self.leader_epoch}), replicas {list(self.replicas)}, though broker {self.wanted} leads it "
            f"since term {self.term}: it is moved back {when}. Leave this topic out of reassignments "
            "and balancers"
        )


class LedOutside(NamedTuple):
    """A broker that is not of the tier leads a partition of ours, which is taken over again."""

    topic: str
    partition_index: int
    leader: int
    leader_epoch: int

    def __str__(self) -> str:
        return (
            f"{self.topic}-{self.partition_index} is led by upstream broker {self.leader} (epoch "
            f"{self.leader_epoch}), which may have taken commits: it is taken over again, on top of what is "
            "here, and members join anew"
        )


class StrayMoved(NamedTuple):
    """A partition that is not ours is moved away from the tier."""

    topic: str
    partition_index: int
    replicas: tuple[int, ...]
    target: tuple[int, ...]

    def __str__(self) -> str:
        return (
            f"{self.topic}-{self.partition_index} has replicas {list(self.replicas)}, some of them on the "
            f"tier, which keeps no records: it is moved to {list(self.target)}"
        )


class NodeFenced(NamedTuple):
    """A dead node of the tier is fenced before its session has run out."""

    broker_id: int
    broker_epoch: int

    def __str__(self) -> str:
        return f"broker {self.broker_id} of the tier (epoch {self.broker_epoch}) is dead, and fenced upstream"


class Refused(NamedTuple):
    """The controller has refused a move."""

    topic: str
    partition_index: int
    move: Move
    error: str

    def __str__(self) -> str:
        match self.move:
            case Elect():
                what = "an election"
            case ToIsr(isr):
                what = f"ISR {list(isr)}"
            case Cancel():
                what = "the end of the reassignment"
            case to:
                what = f"replicas {list(to.replicas)}"
        return f"{what} of {self.topic}-{self.partition_index} refused with {self.error}"


class Taken(NamedTuple):
    """The groups of a partition are served by the tier."""

    topic: str
    partition_index: int
    next_offset: int
    records: int

    def __str__(self) -> str:
        return (
            f"{self.topic}-{self.partition_index} is taken over: {self.records} records up to offset "
            f"{self.next_offset}, and its groups are served"
        )


class GivenBack(NamedTuple):
    """Brokers lead a partition again, and have all of it."""

    topic: str
    partition_index: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition_index} is given back: brokers have all of it, and lead it"


class NotLeaving(NamedTuple):
    """A partition that is being given back gets on no further, and stays for a while."""

    topic: str
    partition_index: int

    def __str__(self) -> str:
        return (
            f"{self.topic}-{self.partition_index} does not get on on its way back to the brokers; its groups "
            "are served here, and it is tried again later"
        )


class NotGettingOn(NamedTuple):
    """A partition that is being taken over gets on no further, and is given back for a while."""

    topic: str
    partition_index: int
    next_offset: int
    problem: str | None

    def __str__(self) -> str:
        why = "" if self.problem is None else f": {self.problem}"
        return (
            f"{self.topic}-{self.partition_index} does not get on at offset {self.next_offset}{why}; its "
            "brokers go on alone, and it is tried again later"
        )


class TopicMade(NamedTuple):
    """The cluster has had no group yet: the tier makes the topic."""

    topic: str
    partitions: int

    def __str__(self) -> str:
        return (
            f"the cluster has no {self.topic} yet: it is made on the tier, with {self.partitions} partitions"
        )


Report = PutRight | LedOutside | StrayMoved | NodeFenced | Refused
