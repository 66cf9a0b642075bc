"""One tier node as a broker of the upstream cluster: registered, unfenced, kept alive, and gone again.

This is a pure state machine. Whoever runs it asks `step` what to do now, does it, and says with `found`,
`answered` or `failed` what came of it; time and everything known of the cluster are arguments. At most one
request is under way.

What it makes sure of:
* the first heartbeat, which unfences the broker, cordons its log directory too, so that the controller
  never places anything there (KIP-1066). Only a node that registers again while its session lasts is not
  cordoned for as long as that takes: its registration begins uncordoned, and it is unfenced still;
* a heartbeat says how far this node has really read the metadata: a controlled shutdown of any other broker
  waits until all have read that far;
* a broker is unregistered only when no partition has it as a replica;
* it registers again, and stays what it is, when a controller of newer software has levels of features that
  this node may claim: else it would hold up that they are raised.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from actors.upstream.controller import Controller, may_cordon, wrong_with
from actors.upstream.levels import CORDONS_LEVEL, FEATURES, claims
from actors.upstream.node import (
    NodeInvalid,
    TierNode,
    check_against_brokers,
    check_node,
    log_dir_id,
    uuid_text,
)
from actors.upstream.requests import (
    Answer,
    BrokerHeartbeat,
    HeartbeatAnswer,
    RegisterBroker,
    RegistrationAnswer,
    UnregisterBroker,
    UnregistrationAnswer,
)
from actors.upstream.states import TRANSITIONS, Event, State

HEARTBEAT_MS: Final = 1_500
"""How often a node sends heartbeats; a broker's session lasts 9 s by default."""
RETRY_MS: Final = 500
"""How long a node waits before it asks again what was refused for a time."""
DUPLICATE_MAX_MS: Final = 180_000
"""How long a node waits for the session of an earlier process of its own to end."""
UNKNOWN_DUPLICATE_MAX_MS: Final = 30_000
"""How long a node waits for the session of a broker of its id if nobody can say whose it is."""
SHUT_DOWN_MAX_MS: Final = 60_000
"""How long a controlled shutdown may take; then the node goes without the controller's consent."""


class RegisteredBroker(NamedTuple):
    """The broker of this node's id as the metadata has it."""

    incarnation_id: bytes
    log_dirs: tuple[bytes, ...]
    in_controlled_shutdown: bool = False
    """Whether it has asked to be relieved of what it leads: nothing takes that back for this incarnation."""


class Facts(NamedTuple):
    """What is known of the cluster and of this node now."""

    metadata_offset: int = -1
    """The last offset of the metadata that this node has read."""
    is_ready: bool = True
    """Whether the node answers at its listeners."""
    listeners: Mapping[str, int] | None = None
    """The listeners of the upstream's brokers, name -> security protocol; None if that is not known."""
    registered: RegisteredBroker | None = None
    """The broker of this id in the metadata; None if there is none, or if that is not known."""
    replicas: int = 0
    """How many partitions have this broker as a replica."""
    cordoned: bool | None = None
    """Whether the log directory is to be cordoned; None: the first heartbeat cordons it, and later ones leave
    it as it is."""


class FindController(NamedTuple):
    """Look for the active controller, then call `found`."""


class Wait(NamedTuple):
    """There is nothing to do before this time, unless facts change."""

    until_ms: int


class Over(NamedTuple):
    """There is nothing to do any more."""

    refusal: str | None
    """Why the node cannot be a broker of this cluster and what to do; None if it has left."""


Step = FindController | RegisterBroker | BrokerHeartbeat | UnregisterBroker | Wait | Over


class Happened(NamedTuple):
    """Something worth a line in the log."""

    broker_id: int
    state: State
    why: str

    def __str__(self) -> str:
        return f"upstream broker {self.broker_id} is {self.state.value}: {self.why}"


_NOT_ALLOWED: Final = (
    "the controller does not allow it: give the tier's principal ClusterAction (and Alter, to unregister) on "
    "the cluster"
)
_REFUSALS: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.inconsistent_cluster_id: "the controller's cluster is not {node.cluster_id}: check the "
    "addresses of the controllers",
    ErrorCode.invalid_registration: "the controller takes the registration of id {node.broker_id} for "
    "invalid; its own log says why. Log directory {directory} may be another broker's: choose another id",
    ErrorCode.unsupported_version: "the controller requires feature levels that this release does not claim: "
    "install a groupd that understands them",
    ErrorCode.cluster_authorization_failed: _NOT_ALLOWED,
}
"""What is of no use to be tried again."""


class Registration:
    """Takes one node through its states. Raises NodeInvalid if the node can be no broker anywhere."""

    def __init__(self, node: TierNode, incarnation_id: bytes, broker_epoch: int = -1) -> None:
        """`broker_epoch` is the last one that the node had before it was started, -1 if there was none."""
        check_node(node)
        if not any(incarnation_id):
            raise NodeInvalid("the incarnation id is zero: remove the file that it was read from")
        self.node = node
        self.incarnation_id = incarnation_id
        self.log_dir = log_dir_id(node.cluster_id, node.broker_id)
        self.state = State.STARTING
        self.broker_epoch = broker_epoch
        """The epoch of this registration, or of the one before while there is none."""
        self.is_cordoned: bool | None = None
        """What this node has asked for in this registration, and was granted; None: nothing yet."""
        self.controller: Controller | None = None
        self._refusal: str | None = None
        self._next_ms = 0
        self._duplicate_since_ms: int | None = None
        self._could_unfence = False
        """Whether the last heartbeat was one that unfences."""
        self._claims = FEATURES
        """The levels of features that the node says it supports."""
        self._is_outdated = False
        """Whether it is registered with fewer of them."""
        self._asked_to_cordon: bool | None = None
        """What the last heartbeat said of the directory."""
        self._leaves: bool | None = None
        self._leaves_until_ms = 0
        self._told: list[Happened] = []

    def leave(self, *, unregister: bool) -> None:
        """Begin to leave: the broker is relieved of what it leads, and forgotten if `unregister`, once no
        partition has it as a replica."""
        self._leaves = unregister

    def told(self) -> list[Happened]:
        """Return what has happened since the last call."""
        told, self._told = self._told, []
        return told

    def step(self, facts: Facts, now_ms: int) -> Step:
        """Return what to do now."""
        if self._leaves is not None:
            self._go(facts, now_ms)
        if self.state is State.NOT_RUNNING:
            return Over(self._refusal)
        if now_ms < self._next_ms and not self._is_urgent(facts):
            return Wait(self._next_ms)
        if self.controller is None:
            return FindController()
        match self.state:
            case State.STARTING:
                return self._register(facts, now_ms)
            case State.SHUTTING_DOWN:
                return UnregisterBroker(self.node.broker_id)
            case State.RECOVERY | State.RUNNING if self._is_outdated:
                return self._registering()
            case _:
                return self._heartbeat(facts, now_ms)

    def found(self, controller: Controller, now_ms: int) -> None:
        """Take note of the active controller, which may be that of a cluster the node must not join."""
        wrong = "; ".join(wrong_with(controller, self.node))
        if not wrong:
            self.controller, self._next_ms = controller, now_ms
            before, self._claims = self._claims, claims(controller.supported, self._claims)
            self._is_outdated |= before != self._claims
        elif self.state in (State.STARTING, State.SHUTTING_DOWN):
            self._refuse(wrong)
        else:  # it is registered, so this is somebody else, or passes
            self._next_ms = now_ms + RETRY_MS
            self._tell(f"another controller is looked for: {wrong}")

    def failed(self, why: str) -> None:
        """Take note that a request has no answer: the connection is lost, or it took too long."""
        self.controller = None
        self._next_ms = 0
        self._tell(f"the active controller is looked for again: {why}")

    def answered(self, answer: Answer, now_ms: int) -> None:
        """Take note of the answer to the last request."""
        if answer.error_code is ErrorCode.not_controller:
            self.failed("this controller is not the active one any more")
            return
        match answer:
            case RegistrationAnswer():
                self._registered(answer, now_ms)
            case HeartbeatAnswer():
                self._heard(answer, now_ms)
            case UnregistrationAnswer():
                self._unregistered(answer, now_ms)
            case _:
                raise AssertionError(f"{answer} answers nothing that was asked")

    def _register(self, facts: Facts, now_ms: int) -> RegisterBroker | Over:
        refusal = self._wrong_with(facts, now_ms)
        if refusal is not None:
            self._refuse(refusal)
            return Over(refusal)
        return self._registering()

    def _registering(self) -> RegisterBroker:
        return RegisterBroker(
            self.node.broker_id,
            self.node.cluster_id,
            self.incarnation_id,
            self.node.listeners,
            self._claims,
            self.node.rack,
            (self.log_dir,),
            self.broker_epoch,
        )

    def _wrong_with(self, facts: Facts, now_ms: int) -> str | None:
        """Return why the node must not register, as far as facts tell."""
        if facts.listeners is not None:
            try:
                check_against_brokers(self.node, facts.listeners)
            except NodeInvalid as error:
                return str(error)
        broker_id, owner = self.node.broker_id, facts.registered
        if owner is not None and self.log_dir not in owner.log_dirs:
            # If it is away, the controller would give its id to whoever asks.
            return (
                f"id {broker_id} is another broker's, which is registered: choose another id for this node; "
                f"if that broker never comes back, `kafka-cluster.sh unregister --id {broker_id}` forgets it"
            )
        if self._duplicate_since_ms is None:
            return None
        wait_max_ms = UNKNOWN_DUPLICATE_MAX_MS if owner is None else DUPLICATE_MAX_MS
        if now_ms - self._duplicate_since_ms < wait_max_ms:
            return None
        return (
            f"id {broker_id} has been a live broker's for {wait_max_ms} ms: another process of this node "
            "runs, which has to be stopped, or the id is another broker's; then choose another one"
        )

    def _heartbeat(self, facts: Facts, now_ms: int) -> BrokerHeartbeat:
        wanted = self._cordon_now(facts)
        leaves = self.state is State.PENDING_CONTROLLED_SHUTDOWN
        self._could_unfence = self._can_unfence(facts)
        self._asked_to_cordon = wanted
        self._next_ms = now_ms + HEARTBEAT_MS
        return BrokerHeartbeat(
            self.node.broker_id,
            self.broker_epoch,
            facts.metadata_offset,
            want_fence=not facts.is_ready and not leaves,
            want_shut_down=leaves,
            cordoned_log_dirs=None if wanted is None else (self.log_dir,) if wanted else (),
        )

    def _cordon_now(self, facts: Facts) -> bool | None:
        """Return what a heartbeat has to say of the directory; None: nothing."""
        if self.controller is None or not may_cordon(self.controller):
            return None
        wanted = facts.cordoned
        if wanted is None and self.is_cordoned is None:
            wanted = True
        return None if wanted == self.is_cordoned else wanted

    def _is_urgent(self, facts: Facts) -> bool:
        """Whether a heartbeat has something to say that must not wait for its time."""
        if self.state is State.RUNNING:
            wanted = self._cordon_now(facts)
            return wanted is not None and wanted != self._asked_to_cordon
        return self.state is State.RECOVERY and self._can_unfence(facts) and not self._could_unfence

    def _can_unfence(self, facts: Facts) -> bool:
        return facts.is_ready and facts.metadata_offset >= self.broker_epoch

    def _registered(self, answer: RegistrationAnswer, now_ms: int) -> None:
        self._next_ms = now_ms
        self._is_outdated, is_again = False, self.state is not State.STARTING
        match answer.error_code:
            case refused if is_again and refused is not ErrorCode.none:
                self._tell(f"it goes on with the levels of features it had: {refused.name}")
            case ErrorCode.none:
                self.broker_epoch = answer.broker_epoch
                self.is_cordoned = self._duplicate_since_ms = None
                self._could_unfence = False
                self._enter(Event.REGISTERED, f"it is registered with epoch {answer.broker_epoch}")
                if is_again:
                    self._tell("it is registered again, with levels of features that newer controllers have")
                if self.controller is not None and not may_cordon(self.controller):
                    self._tell(
                        f"its log directory cannot be cordoned below level {CORDONS_LEVEL} of "
                        "metadata.version (4.3): topics may be placed on it and have to be moved away"
                    )
            case ErrorCode.duplicate_broker_registration:
                self._next_ms += RETRY_MS
                if self._duplicate_since_ms is None:
                    self._duplicate_since_ms = now_ms
                    self._tell(
                        "a broker of this id is alive: waiting for the session of an earlier process of this "
                        "node to run out (broker.session.timeout.ms)"
                    )
            case refused:
                self._refused("BrokerRegistration", refused)

    def _heard(self, answer: HeartbeatAnswer, now_ms: int) -> None:
        match answer.error_code:
            case ErrorCode.none:
                if self._asked_to_cordon is not None:
                    self.is_cordoned = self._asked_to_cordon
                if answer.should_shut_down and self.state is State.PENDING_CONTROLLED_SHUTDOWN:
                    self._next_ms = now_ms
                    self._enter(Event.RELIEVED, "the controller lets it go")
                elif answer.is_fenced:
                    self._enter(Event.FENCED, "the controller has fenced it")
                else:
                    self._enter(Event.UNFENCED, "the controller has unfenced it")
            case ErrorCode.stale_broker_epoch | ErrorCode.broker_id_not_registered:
                self._next_ms = now_ms
                self._enter(
                    Event.FORGOTTEN,
                    f"the controller knows no broker {self.node.broker_id} of epoch {self.broker_epoch}: it "
                    "was unregistered, or another process has registered it",
                )
            case refused:
                self._refused("BrokerHeartbeat", refused)

    def _unregistered(self, answer: UnregistrationAnswer, now_ms: int) -> None:
        self._next_ms = now_ms
        match answer.error_code:
            case ErrorCode.none | ErrorCode.broker_id_not_registered:
                self._enter(Event.ENDED, "it is unregistered")
            case refused:
                self._refused("UnregisterBroker", refused)

    def _refused(self, request: str, error_code: ErrorCode) -> None:
        """Give up, if that error stays, and else try again later."""
        text = _REFUSALS.get(error_code)
        if text is not None and self.state in (State.STARTING, State.SHUTTING_DOWN):
            self._refuse(text.format(node=self.node, directory=uuid_text(self.log_dir)))
            return
        self._next_ms += RETRY_MS
        self._tell(f"{request} is refused with {error_code.name}, and tried again")

    def _go(self, facts: Facts, now_ms: int) -> None:
        """Go on with leaving, as far as facts allow it."""
        unregisters = bool(self._leaves)
        if self.state in (State.STARTING, State.RECOVERY, State.RUNNING) and not (
            unregisters and facts.replicas
        ):
            self._leaves_until_ms = now_ms + SHUT_DOWN_MAX_MS
            self._next_ms = now_ms
            self._enter(Event.ASKED_TO_LEAVE, "it is asked to leave")
        elif self.state is State.PENDING_CONTROLLED_SHUTDOWN and now_ms >= self._leaves_until_ms:
            self._next_ms = now_ms
            self._enter(Event.RELIEVED, f"the controller has not let it go for {SHUT_DOWN_MAX_MS} ms")
        if self.state is State.SHUTTING_DOWN and not unregisters:
            self._enter(Event.ENDED, "it has gone and stays registered")

    def _refuse(self, refusal: str) -> None:
        self._refusal = refusal
        self._enter(Event.ENDED, refusal)

    def _enter(self, event: Event, why: str) -> None:
        state = TRANSITIONS[self.state, event]
        if state is not self.state:
            self.state = state
            self._tell(why)

    def _tell(self, why: str) -> None:
        self._told.append(Happened(self.node.broker_id, self.state, why))
