"""One node's way through its states as a broker of the upstream cluster, without a cluster."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from actors.upstream.controller import Controller
from actors.upstream.image import Endpoint
from actors.upstream.levels import FEATURES
from actors.upstream.node import NodeInvalid, TierNode, is_reserved, log_dir_id
from actors.upstream.registration import (
    DUPLICATE_MAX_MS,
    HEARTBEAT_MS,
    RETRY_MS,
    SHUT_DOWN_MAX_MS,
    UNKNOWN_DUPLICATE_MAX_MS,
    Facts,
    FindController,
    Over,
    RegisteredBroker,
    Registration,
    Wait,
)
from actors.upstream.requests import (
    NEEDED_VERSIONS,
    BrokerHeartbeat,
    HeartbeatAnswer,
    RegisterBroker,
    RegistrationAnswer,
    UnregisterBroker,
    UnregistrationAnswer,
)
from actors.upstream.states import TRANSITIONS, Event, State

CLUSTER = "cluster-of-others-0000"
LISTENERS = (Endpoint("PLAINTEXT", "127.0.0.1", 9_092),)
NODE = TierNode(CLUSTER, 1001, LISTENERS)
INCARNATION = b"\x07" * 16
DIR = log_dir_id(CLUSTER, 1001)
VERSIONS = {needed.api_key: (0, needed.high) for needed in NEEDED_VERSIONS.values()}
KAFKA_44 = Controller(
    CLUSTER,
    frozenset((1, 2, 3)),
    VERSIONS,
    {"metadata.version": 33},
    {"metadata.version": 33, "share.version": 2},
)
KAFKA_39 = KAFKA_44._replace(
    versions={**VERSIONS, 63: (0, 1)}, supported={"metadata.version": 21}, finalized={"metadata.version": 21}
)
EPOCH = 70
FACTS = Facts(metadata_offset=100)
UNFENCED = HeartbeatAnswer(ErrorCode.none, is_caught_up=True, is_fenced=False)
FENCED = HeartbeatAnswer(ErrorCode.none, is_caught_up=True, is_fenced=True)
RELIEVED = HeartbeatAnswer(ErrorCode.none, is_caught_up=True, is_fenced=True, should_shut_down=True)
BEAT = BrokerHeartbeat(1001, EPOCH, 100)


def started(controller: Controller = KAFKA_44, node: TierNode = NODE) -> Registration:
    machine = Registration(node, INCARNATION)
    assert machine.step(FACTS, 0) == FindController()
    machine.found(controller, 0)
    return machine


def registered(controller: Controller = KAFKA_44) -> Registration:
    machine = started(controller)
    assert isinstance(machine.step(FACTS, 0), RegisterBroker)
    machine.answered(RegistrationAnswer(ErrorCode.none, EPOCH), 0)
    return machine


def running(controller: Controller = KAFKA_44) -> Registration:
    machine = registered(controller)
    assert isinstance(machine.step(FACTS, 0), BrokerHeartbeat)
    machine.answered(UNFENCED, 0)
    assert machine.state is State.RUNNING
    return machine


def refusal(machine: Registration, facts: Facts = FACTS, now_ms: int = 0) -> str:
    step = machine.step(facts, now_ms)
    assert isinstance(step, Over)
    assert step.refusal is not None
    assert machine.state is State.NOT_RUNNING
    return step.refusal


def test_a_node_registers_with_all_that_it_understands() -> None:
    assert started().step(FACTS, 0) == RegisterBroker(
        1001, CLUSTER, INCARNATION, LISTENERS, FEATURES, None, (DIR,), -1
    )


def test_the_epoch_before_goes_along() -> None:
    machine = Registration(NODE, INCARNATION, broker_epoch=66)
    machine.found(KAFKA_44, 0)
    step = machine.step(FACTS, 0)
    assert isinstance(step, RegisterBroker)
    assert step.previous_broker_epoch == 66


def test_the_first_heartbeat_cordons_and_later_ones_leave_it() -> None:
    machine = registered()
    assert machine.step(FACTS, 0) == BEAT._replace(cordoned_log_dirs=(DIR,))
    machine.answered(UNFENCED, 5)
    assert machine.is_cordoned
    assert machine.step(FACTS, 10) == Wait(HEARTBEAT_MS)
    assert machine.step(FACTS, HEARTBEAT_MS) == BEAT


def test_a_cordon_that_was_not_granted_is_asked_for_again() -> None:
    machine = registered()
    machine.step(FACTS, 0)
    machine.failed("cut off")
    machine.found(KAFKA_44, 10)
    assert machine.step(FACTS, 10) == BEAT._replace(cordoned_log_dirs=(DIR,))


def test_a_changed_wish_is_sent_at_once() -> None:
    machine = running()
    wish = FACTS._replace(cordoned=False)
    assert machine.step(wish, 20) == BEAT._replace(cordoned_log_dirs=())
    machine.answered(UNFENCED, 30)
    assert machine.step(wish, 40) == Wait(20 + HEARTBEAT_MS)
    assert machine.step(FACTS._replace(cordoned=True), 50) == BEAT._replace(cordoned_log_dirs=(DIR,))


def test_a_refused_wish_is_not_repeated_without_a_pause() -> None:
    machine = running()
    wish = FACTS._replace(cordoned=False)
    machine.step(wish, 20)
    machine.answered(HeartbeatAnswer(ErrorCode.unknown_server_error), 30)
    step = machine.step(wish, 31)
    assert isinstance(step, Wait)
    assert machine.step(wish, step.until_ms) == BEAT._replace(cordoned_log_dirs=())


def test_below_level_30_nothing_is_cordoned_and_it_is_told() -> None:
    machine = registered(KAFKA_39)
    assert machine.step(FACTS, 0) == BEAT
    assert "cannot be cordoned below level 30" in " ".join(map(str, machine.told()))


def test_heartbeats_say_how_far_the_metadata_is_read() -> None:
    machine = running()
    assert machine.step(Facts(metadata_offset=345), HEARTBEAT_MS) == BEAT._replace(
        current_metadata_offset=345
    )


def test_a_node_that_has_caught_up_is_unfenced_at_once() -> None:
    machine = registered()
    assert isinstance(machine.step(Facts(metadata_offset=EPOCH - 1), 0), BrokerHeartbeat)
    machine.answered(FENCED, 5)
    assert machine.state is State.RECOVERY
    assert machine.step(Facts(metadata_offset=EPOCH - 1), 10) == Wait(HEARTBEAT_MS)
    step = machine.step(Facts(metadata_offset=EPOCH), 11)
    assert isinstance(step, BrokerHeartbeat)
    assert not step.want_fence
    machine.answered(UNFENCED, 15)
    assert machine.state is State.RUNNING


def test_a_node_that_does_not_answer_yet_stays_fenced() -> None:
    machine = registered()
    step = machine.step(FACTS._replace(is_ready=False), 0)
    assert isinstance(step, BrokerHeartbeat)
    assert step.want_fence


def test_another_controller_is_looked_for_and_the_epoch_stays() -> None:
    machine = running()
    machine.step(FACTS, HEARTBEAT_MS)
    machine.answered(HeartbeatAnswer(ErrorCode.not_controller), HEARTBEAT_MS)
    assert machine.step(FACTS, HEARTBEAT_MS) == FindController()
    machine.found(KAFKA_44, HEARTBEAT_MS + 50)
    assert machine.step(FACTS, HEARTBEAT_MS + 50) == BEAT


@pytest.mark.parametrize("error", [ErrorCode.stale_broker_epoch, ErrorCode.broker_id_not_registered])
def test_a_node_that_was_forgotten_registers_again(error: ErrorCode) -> None:
    machine = running()
    machine.step(FACTS, HEARTBEAT_MS)
    machine.answered(HeartbeatAnswer(error), HEARTBEAT_MS)
    step = machine.step(FACTS, HEARTBEAT_MS)
    assert isinstance(step, RegisterBroker)
    assert step.previous_broker_epoch == EPOCH
    machine.answered(RegistrationAnswer(ErrorCode.none, 90), HEARTBEAT_MS)
    assert machine.step(FACTS, HEARTBEAT_MS) == BrokerHeartbeat(1001, 90, 100, cordoned_log_dirs=(DIR,))


def test_a_node_that_is_fenced_asks_to_be_unfenced_and_tells_it() -> None:
    machine = running()
    machine.told()
    machine.step(FACTS, HEARTBEAT_MS)
    machine.answered(FENCED, HEARTBEAT_MS)
    assert machine.state is State.RECOVERY
    assert [str(each) for each in machine.told()] == [
        "upstream broker 1001 is in recovery: the controller has fenced it"
    ]
    assert machine.step(FACTS, 2 * HEARTBEAT_MS) == BEAT


def test_the_wrong_cluster_is_refused_by_name() -> None:
    assert refusal(started(KAFKA_44._replace(cluster_id="another"))) == (
        f"the controllers are those of cluster another, and this node belongs to cluster {CLUSTER}: check "
        "the addresses of the controllers"
    )


def test_a_controller_of_another_cluster_that_comes_later_is_not_asked() -> None:
    machine = running()
    machine.failed("cut off")
    machine.found(KAFKA_44._replace(cluster_id="another"), 10)
    assert machine.step(FACTS, 11) == Wait(10 + RETRY_MS)
    assert machine.step(FACTS, 10 + RETRY_MS) == FindController()


@pytest.mark.parametrize(
    ("finalized", "words"),
    [
        ({"metadata.version": 34}, "metadata.version is finalized at level 34"),
        ({"metadata.version": 16}, "understands levels 17 to 33"),
        ({"metadata.version": 33, "tiering.version": 1}, "does not know that feature"),
        ({"metadata.version": 33, "group.version": 2}, "group.version is finalized at level 2"),
        ({}, "no metadata.version is finalized"),
    ],
)
def test_feature_levels_that_are_not_understood_are_named(finalized: dict[str, int], words: str) -> None:
    assert words in refusal(started(KAFKA_44._replace(finalized=finalized)))


def test_a_feature_at_level_0_need_not_be_known() -> None:
    machine = started(KAFKA_44._replace(finalized={"metadata.version": 33, "tiering.version": 0}))
    assert isinstance(machine.step(FACTS, 0), RegisterBroker)


def test_a_controller_that_speaks_too_old_versions_is_named() -> None:
    controller = KAFKA_44._replace(versions={**VERSIONS, 62: (0, 2)})
    assert "speaks RegisterBroker 0 to 2, and this release 3 to 4" in refusal(started(controller))


def test_a_controllers_id_is_not_taken() -> None:
    machine = started(node=NODE._replace(broker_id=3))
    assert refusal(machine) == "id 3 is a controller's: choose another id for this node"


@pytest.mark.parametrize(
    ("listeners", "words"),
    [
        ({"EXTERNAL": 0}, "no upstream broker has listeners PLAINTEXT: use the names EXTERNAL"),
        ({"PLAINTEXT": 0, "EXTERNAL": 0}, "upstream's listeners EXTERNAL have no endpoint on broker 1001"),
        ({"PLAINTEXT": 3}, "listener PLAINTEXT is PLAINTEXT here and SASL_SSL upstream"),
    ],
)
def test_listeners_that_nobody_would_find_are_named(listeners: dict[str, int], words: str) -> None:
    assert words in refusal(started(), FACTS._replace(listeners=listeners))


@pytest.mark.parametrize(
    ("node", "words"),
    [
        (NODE._replace(broker_id=-1), "broker id -1 is not between 0 and 2147482999"),
        (NODE._replace(broker_id=2_147_483_000), "broker id 2147483000 is not between"),
        (NODE._replace(cluster_id=""), "no cluster id is given"),
        (NODE._replace(listeners=()), "no listeners"),
        (NODE._replace(listeners=LISTENERS * 2), "listener PLAINTEXT is given 2 times"),
        (NODE._replace(listeners=(Endpoint("A", "0.0.0.0", 1),)), "to which nobody can connect"),
        (NODE._replace(listeners=(Endpoint("A", "h", 70_000),)), "listener A has port 70000"),
        (NODE._replace(listeners=(Endpoint("A", "h", 1, 9),)), "security protocol 9"),
        (NODE._replace(rack=""), "the rack is empty"),
    ],
)
def test_what_kafka_would_accept_though_it_is_wrong_is_refused(node: TierNode, words: str) -> None:
    with pytest.raises(NodeInvalid, match=words):
        Registration(node, INCARNATION)


def test_a_zero_incarnation_is_refused() -> None:
    with pytest.raises(NodeInvalid, match="incarnation id is zero"):
        Registration(NODE, bytes(16))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ErrorCode.inconsistent_cluster_id, "cluster is not cluster-of-others-0000"),
        (ErrorCode.invalid_registration, "takes the registration of id 1001 for invalid"),
        (ErrorCode.unsupported_version, "requires feature levels"),
        (ErrorCode.cluster_authorization_failed, "give the tier's principal ClusterAction"),
    ],
)
def test_what_stays_refused_is_not_tried_again(error: ErrorCode, words: str) -> None:
    machine = started()
    machine.step(FACTS, 0)
    machine.answered(RegistrationAnswer(error), 0)
    assert words in refusal(machine)


def test_what_passes_is_tried_again_after_a_pause() -> None:
    machine = started()
    machine.step(FACTS, 0)
    machine.answered(RegistrationAnswer(ErrorCode.request_timed_out), 0)
    assert machine.step(FACTS, 1) == Wait(RETRY_MS)
    assert isinstance(machine.step(FACTS, RETRY_MS), RegisterBroker)


def duplicate() -> Registration:
    machine = started()
    machine.step(FACTS, 0)
    machine.answered(RegistrationAnswer(ErrorCode.duplicate_broker_registration), 0)
    return machine


@pytest.mark.parametrize("is_alive", [True, False])
def test_the_id_of_another_broker_is_refused_at_once_if_that_is_known(is_alive: bool) -> None:
    """If it is away, the controller would take this node for the broker that comes back."""
    other = FACTS._replace(registered=RegisteredBroker(b"\x08" * 16, (b"\x09" * 16,)))
    machine = duplicate() if is_alive else started()
    assert refusal(machine, other, RETRY_MS).startswith(
        "id 1001 is another broker's, which is registered: choose another id for this node"
    )


def test_the_session_of_an_earlier_process_is_waited_for() -> None:
    mine = FACTS._replace(registered=RegisteredBroker(b"\x08" * 16, (DIR,)))
    machine = duplicate()
    assert machine.step(mine, 1) == Wait(RETRY_MS)
    assert isinstance(machine.step(mine, DUPLICATE_MAX_MS - 1), RegisterBroker)
    machine.answered(RegistrationAnswer(ErrorCode.none, EPOCH), DUPLICATE_MAX_MS)
    assert machine.state is State.RECOVERY


def test_nobody_waits_for_ever_for_a_session_that_does_not_end() -> None:
    mine = FACTS._replace(registered=RegisteredBroker(b"\x08" * 16, (DIR,)))
    assert "another process of this node runs" in refusal(duplicate(), mine, DUPLICATE_MAX_MS)
    assert "or the id is another broker's" in refusal(duplicate(), FACTS, UNKNOWN_DUPLICATE_MAX_MS)


def test_a_node_leaves_when_the_controller_lets_it_and_is_unregistered() -> None:
    machine = running()
    machine.leave(unregister=True)
    assert machine.step(FACTS, 10) == BEAT._replace(want_shut_down=True)
    machine.answered(UNFENCED, 20)
    assert machine.state is State.PENDING_CONTROLLED_SHUTDOWN
    assert machine.step(FACTS, 10 + HEARTBEAT_MS) == BEAT._replace(want_shut_down=True)
    machine.answered(RELIEVED, 2_000)
    assert machine.step(FACTS, 2_000) == UnregisterBroker(1001)
    machine.answered(UnregistrationAnswer(ErrorCode.none), 2_050)
    assert machine.step(FACTS, 2_050) == Over(None)


def test_a_node_with_replicas_is_not_unregistered() -> None:
    machine = running()
    machine.leave(unregister=True)
    assert machine.step(FACTS._replace(replicas=3), HEARTBEAT_MS) == BEAT
    machine.answered(UNFENCED, HEARTBEAT_MS)
    assert machine.state is State.RUNNING
    assert machine.step(FACTS, 2 * HEARTBEAT_MS) == BEAT._replace(want_shut_down=True)


def newer(**supported: int) -> Controller:
    """A controller of a later release, at the same levels."""
    levels = {name.replace("_", "."): level for name, level in supported.items()}
    return KAFKA_44._replace(supported={**KAFKA_44.supported, **levels})


def claimed(step: object) -> dict[str, int]:
    assert isinstance(step, RegisterBroker)
    return {each.name: each.max_supported_version for each in step.features}


def test_levels_that_are_no_business_of_the_tier_are_claimed_as_far_as_the_controller_has_them() -> None:
    step = started(newer(share_version=7, metadata_version=40, group_version=9)).step(FACTS, 0)
    assert claimed(step)["share.version"] == 7
    assert (claimed(step)["metadata.version"], claimed(step)["group.version"]) == (33, 1)


def test_a_node_says_more_to_a_newer_controller_and_stays_what_it_is() -> None:
    machine = running()
    machine.failed("the controllers are restarted one by one")
    machine.found(newer(kraft_version=2), 10)
    step = machine.step(FACTS, 10)
    assert isinstance(step, RegisterBroker)
    assert (claimed(step)["kraft.version"], step.incarnation_id, step.previous_broker_epoch) == (
        2,
        INCARNATION,
        EPOCH,
    )
    machine.answered(RegistrationAnswer(ErrorCode.none, EPOCH), 20)
    assert machine.state is State.RUNNING
    assert machine.step(FACTS, 20) == BEAT._replace(cordoned_log_dirs=(DIR,))


def test_an_older_controller_in_between_is_told_nothing_new() -> None:
    machine = started(newer(kraft_version=2))
    machine.step(FACTS, 0)
    machine.answered(RegistrationAnswer(ErrorCode.none, EPOCH), 0)
    machine.step(FACTS, 0)
    machine.answered(UNFENCED, 0)
    machine.failed("cut off")
    machine.found(KAFKA_44, HEARTBEAT_MS)
    assert machine.step(FACTS, HEARTBEAT_MS) == BEAT


def test_a_node_that_may_not_say_more_goes_on() -> None:
    machine = running()
    machine.failed("cut off")
    machine.found(newer(kraft_version=2), HEARTBEAT_MS)
    assert isinstance(machine.step(FACTS, HEARTBEAT_MS), RegisterBroker)
    machine.answered(RegistrationAnswer(ErrorCode.unsupported_version), HEARTBEAT_MS)
    assert machine.step(FACTS, HEARTBEAT_MS) == BEAT
    assert "goes on with the levels of features it had" in " ".join(map(str, machine.told()))


def test_what_was_asked_of_a_lost_controller_is_asked_of_the_next() -> None:
    machine = running()
    machine.failed("cut off")
    machine.found(newer(kraft_version=2), 10)
    machine.step(FACTS, 10)
    machine.failed("cut off again")
    machine.found(newer(kraft_version=2), 20)
    assert isinstance(machine.step(FACTS, 20), RegisterBroker)


def test_a_node_that_only_stops_stays_registered() -> None:
    machine = running()
    machine.leave(unregister=False)
    assert machine.step(FACTS._replace(replicas=3), 10) == BEAT._replace(want_shut_down=True)
    machine.answered(RELIEVED, 20)
    assert machine.step(FACTS, 20) == Over(None)


def test_a_controller_that_does_not_let_go_is_not_waited_for_longer_than_a_minute() -> None:
    machine = running()
    machine.leave(unregister=True)
    machine.step(FACTS, 0)
    machine.answered(UNFENCED, 10)
    assert machine.step(FACTS, SHUT_DOWN_MAX_MS) == UnregisterBroker(1001)


def test_a_node_that_is_not_registered_leaves_without_registering() -> None:
    machine = started()
    machine.leave(unregister=True)
    assert machine.step(FACTS, 0) == UnregisterBroker(1001)
    machine.answered(UnregistrationAnswer(ErrorCode.broker_id_not_registered), 0)
    assert machine.step(FACTS, 0) == Over(None)


def test_nobody_is_unregistered_from_the_wrong_cluster() -> None:
    machine = Registration(NODE, INCARNATION)
    machine.leave(unregister=True)
    assert machine.step(FACTS, 0) == FindController()
    machine.found(KAFKA_44._replace(cluster_id="another"), 0)
    assert "those of cluster another" in refusal(machine)


def test_every_state_is_reached_and_left() -> None:
    reached = {State.STARTING, *TRANSITIONS.values()}
    assert reached == set(State)
    assert {state for state, _ in TRANSITIONS} == set(State) - {State.NOT_RUNNING}
    assert {event for _, event in TRANSITIONS} == set(Event)


@pytest.mark.parametrize("broker_id", range(1_000, 1_200))
def test_log_dirs_differ_and_are_none_of_kafkas(broker_id: int) -> None:
    made = log_dir_id(CLUSTER, broker_id)
    assert len(made) == 16
    assert not is_reserved(made)
    assert made == log_dir_id(CLUSTER, broker_id)
    assert made not in (log_dir_id(CLUSTER, broker_id + 1), log_dir_id("another", broker_id))


def test_the_first_hundred_ids_are_kafkas() -> None:
    assert [is_reserved(number.to_bytes(16, "big")) for number in (0, 1, 99, 100)] == [
        True,
        True,
        True,
        False,
    ]
