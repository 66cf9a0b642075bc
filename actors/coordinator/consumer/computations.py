"""The area of members that assign: the requests of who computes, and the time limit (A9 to A11)."""

from actors.coordinator.consumer.client_assignors.job import COMPUTATION_TIMER, end, fail
from actors.coordinator.consumer.handing_out import prepare
from actors.coordinator.consumer.installing import install
from actors.coordinator.consumer.model.state import consumer_groups, kept
from actors.coordinator.ground.area import Area
from actors.coordinator.ground.state import ShardState
from actors.ground.contract import NOTHING, Result
from actors.protocol import api_keys


def _time_is_over(state: ShardState, key: tuple[object, ...], now_ms: int) -> Result:
    """Give up waiting for the member that computes; the next heartbeat of another one asks that."""
    group_id = str(key[1])
    computation, group = kept(state).computations.get(group_id), consumer_groups(state).get(group_id)
    if computation is None or not computation.member_id:
        return NOTHING
    if group is None or group.member(computation.member_id) is None:
        end(state, group_id)
        return NOTHING
    limit_ms = state.settings.group_consumer_client_assignor_timeout_ms
    did = "did not ask for the group" if computation.handed is None else "did not install an assignment"
    return Result(events=(fail(state, group, f"it {did} within {limit_ms} ms", now_ms),))


AREA = Area(
    handlers={
        api_keys.CONSUMER_GROUP_PREPARE_ASSIGNMENT: prepare,
        api_keys.CONSUMER_GROUP_INSTALL_ASSIGNMENT: install,
    },
    timers={COMPUTATION_TIMER: _time_is_over},
)
