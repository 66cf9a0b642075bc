"""Differences that are explained: Kafka's own bugs that are not copied, and what Kafka leaves to chance.

Each is matched as narrowly as can be, and ends its sequence, because the sides may go apart afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tests.oracle.generator.choosing_data import BROKER_SETTINGS, SET
from tests.oracle.play import CLOSED, NO_ANSWER

CLIENT_METRICS = 16
"""The type of a subscription to clients' metrics as a resource."""
BROKER = 4
"""The type of a broker as a resource, and of all brokers if it has no name."""


def _any(fields: Mapping[str, Any]) -> bool:
    return True


class Known(NamedTuple):
    """`matches` is asked with both plain answers, Kafka's first, and `asks` with the request's fields."""

    reason: str
    apis: frozenset[str]
    matches: Callable[[Any, Any], bool]
    asks: Callable[[Mapping[str, Any]], bool] = _any


def _without(answer: Any, *names: str) -> Any:
    return {name: value for name, value in answer.items() if name not in names}


def _another_leader(theirs: Any, ours: Any) -> bool:
    """Whether two answers to JoinGroup differ in nothing but who leads, and so has the list of members."""
    names = ("leader", "members", "skip_assignment")
    if isinstance(theirs, str) or isinstance(ours, str):
        return False
    both = theirs["error_code"] == ours["error_code"] == "none"
    return bool(both and theirs["leader"] != ours["leader"]) and _without(theirs, *names) == _without(
        ours, *names
    )


def _forgotten_join(theirs: Any, ours: Any) -> bool:
    """C9: ours tells the connection that waited first to come again."""
    return bool(theirs == NO_ANSWER and ours != CLOSED) and _error(ours) == "27 rebalance_in_progress"


def _forgotten_sync(theirs: Any, ours: Any) -> bool:
    """C23: ours tells the connection that waited that its member is gone, or to come again."""
    return theirs == NO_ANSWER and _error(ours) in ("25 unknown_member_id", "27 rebalance_in_progress")


def _error(answer: Any) -> str:
    return str(answer["error_code"]) if isinstance(answer, dict) and "error_code" in answer else ""


def _of_the_dead_process(theirs: Any, ours: Any) -> bool:
    """Whether two descriptions of members differ in nothing but the members' clients."""
    return isinstance(theirs, dict) and _nobodys(theirs) == _nobodys(ours)


def _downgraded_with_a_rebalance(theirs: Any, ours: Any) -> bool:
    """Kafka's answer is that of a consumer group, without a leader; ours waits or is of a later one."""
    joined = isinstance(theirs, dict) and theirs["error_code"] == "none" and theirs["leader"] == ""
    if not joined or ours == NO_ANSWER:
        return bool(joined)
    return bool(ours != CLOSED and ours["leader"] and ours["generation_id"] > theirs["generation_id"])


def _upgraded_at_once(theirs: Any, ours: Any) -> bool:
    return _error(theirs) == "-1 unknown_server_error" and _error(ours) == "none"


def _refused_in_a_rebalance(theirs: Any, ours: Any) -> bool:
    return _error(theirs) == "-1 unknown_server_error" and _error(ours) == "69 group_id_not_found"


def _entries(answer: Any, name: str) -> list[Any]:
    return list(answer[name]) if isinstance(answer, dict) else []


def _quotas_that_are_not_taken(theirs: Any, ours: Any) -> bool:
    """Whether entries differ in nothing but that ours refuses what Kafka would store."""
    pairs = list(zip(_entries(theirs, "entries"), _entries(ours, "entries"), strict=False))
    return bool(pairs) and all(
        one == other or (_error(one), _error(other)) == ("none", "44 policy_violation")
        for one, other in pairs
    )


def _eligible_leaders_keep_a_config(theirs: Any, ours: Any) -> bool:
    """Whether Kafka refuses what would take away the default of all brokers."""
    pairs = list(zip(_entries(theirs, "responses"), _entries(ours, "responses"), strict=False))
    return any(
        each["resource_name"] == "" and _error(each) == "40 invalid_config" != _error(other)
        for each, other in pairs
    )


def _default_is_covered(theirs: Any, ours: Any) -> bool:
    pairs = zip(_entries(theirs, "responses"), _entries(ours, "responses"), strict=False)
    return any(
        (each["resource_name"], _error(each), _error(other)) == ("", "none", "42 invalid_request")
        for each, other in pairs
    )


def _zero_id_fails_others(theirs: Any, ours: Any) -> bool:
    """Whether Kafka fails a fetch as a whole of which ours refuses the zero id alone."""
    zero = any(each.get("topic_id", "") is None for each in _entries(ours, "responses"))
    return zero and _error(theirs) == "-1 unknown_server_error" and _error(ours) == "none"


def _nobodys(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _nobodys(inner) for name, inner in value.items() if name != "client_id"}
    if isinstance(value, list):
        return sorted((_nobodys(each) for each in value), key=str)
    return value


def _sets_what_no_broker_has(fields: Mapping[str, Any]) -> bool:
    """Whether each resource is a broker, or all of them, and is to have a setting that there is not."""
    return all(
        each["resource_type"] == BROKER
        and any(
            config["name"] not in BROKER_SETTINGS and config.get("config_operation", SET) == SET
            for config in each["configs"]
        )
        for each in fields["resources"]
    )


def _is_kept_unknown(theirs: Any, ours: Any) -> bool:
    pairs = zip(errors(theirs), errors(ours), strict=False)
    return {pair for pair in pairs if pair[0] != pair[1]} == {("none", "42 invalid_request")}


def _is_about_client_metrics(fields: Mapping[str, Any]) -> bool:
    return all(each["resource_type"] == CLIENT_METRICS for each in fields["resources"])


def _is_refused_here(theirs: Any, ours: Any) -> bool:
    return {*errors(ours)} == {"42 invalid_request"}


KNOWN = (
    Known(
        "configs of clients' metrics: Kafka has them, ours asks no client for metrics and refuses them (W25)",
        frozenset({"incremental_alter_configs", "alter_configs"}),
        _is_refused_here,
        _is_about_client_metrics,
    ),
    Known(
        "a setting of brokers that there is not: Kafka keeps it without a word, ours refuses it (W43)",
        frozenset({"incremental_alter_configs", "alter_configs"}),
        _is_kept_unknown,
        _sets_what_no_broker_has,
    ),
    Known(
        "a setting of all brokers that is too large, and covered by the asked node's own value: Kafka "
        "looks at what results at that node, ours at the value alone (W43)",
        frozenset({"incremental_alter_configs", "alter_configs"}),
        _default_is_covered,
    ),
    Known(
        "the zero topic id beside another topic in a Fetch: Kafka fails the whole request (-1), ours tells "
        "UNKNOWN_TOPIC_ID of it (W34)",
        frozenset({"fetch"}),
        _zero_id_fails_others,
    ),
    Known(
        "a quota that can be: Kafka stores it, ours has none and says so (W42)",
        frozenset({"alter_client_quotas"}),
        _quotas_that_are_not_taken,
    ),
    Known(
        "AlterConfigs of all brokers would take away min.insync.replicas, which Kafka needs to know eligible "
        "leaders (KIP-966); ours has no such leaders",
        frozenset({"alter_configs"}),
        _eligible_leaders_keep_a_config,
    ),
    Known(
        "the last static member of the consumer protocol turns classic and wants another part, or others are "
        "not there yet: Kafka hands out parts of which two may be owners; ours rebalances (G7)",
        frozenset({"join_group"}),
        _downgraded_with_a_rebalance,
    ),
    Known(
        "a consumer comes to a classic group in its first rebalance: Kafka fails (-1), ours upgrades it (G2)",
        frozenset({"consumer_group_heartbeat"}),
        _upgraded_at_once,
    ),
    Known(
        "a consumer comes to a classic group in a rebalance, some of whose members do not speak the protocol "
        "of the generation before: Kafka fails (-1), ours refuses to upgrade it (69, G2)",
        frozenset({"consumer_group_heartbeat"}),
        _refused_in_a_rebalance,
    ),
    Known(
        "DescribeGroups shows the client id of a static member's earlier process (C21, bug)",
        frozenset({"describe_groups"}),
        _of_the_dead_process,
    ),
    Known(
        "a second join of a member whose first is parked: Kafka never answers the first (C9, bug)",
        frozenset({"join_group"}),
        _forgotten_join,
    ),
    Known(
        "a parked sync whose member leaves or syncs again: Kafka never answers it (C23, bug)",
        frozenset({"sync_group"}),
        _forgotten_sync,
    ),
    Known(
        "a leader that is gone is followed by the first of a Java HashMap of random ids",
        frozenset({"join_group"}),
        _another_leader,
    ),
)


FORGOTTEN_GROUP = (
    "an empty consumer group that a member id joins which nobody has: Kafka refuses it (25) and forgets the "
    "group, without a record, until it is restarted (bug)"
)
ASSIGNED_OTHERWISE = "the assignors gave other partitions to the same members, as many to each"
_FOLLOWING = {
    "consumer_group_heartbeat": (),
    "consumer_group_describe": (),
    "list_groups": (),
    "offset_commit": ("none", "113 stale_member_epoch"),
    "heartbeat": ("none", "27 rebalance_in_progress"),
    "sync_group": ("none", "27 rebalance_in_progress"),
}
"""Errors by API that one side may have and the other not."""


def may_follow(api: str, theirs: Any, ours: Any) -> bool:
    """Whether an answer can differ so because of who has which partitions."""
    if api not in _FOLLOWING:
        return False
    pairs = zip(errors(theirs), errors(ours), strict=False)
    return len(errors(theirs)) == len(errors(ours)) and all(
        one == other or {one, other} <= set(_FOLLOWING[api]) for one, other in pairs
    )


def errors(answer: Any) -> list[str]:
    """Every error in an answer, in order; also that there is none."""
    if isinstance(answer, dict):
        own = [str(answer["error_code"])] if "error_code" in answer else []
        return own + [each for value in answer.values() for each in errors(value)]
    if isinstance(answer, list):
        return [each for value in answer for each in errors(value)]
    return [answer] if answer in (CLOSED, NO_ANSWER) else []


def reason(api: str, fields: Mapping[str, Any], theirs: Any, ours: Any) -> str | None:
    """Why these two answers to a request may differ; None when they may not."""
    return next(
        (
            each.reason
            for each in KNOWN
            if api in each.apis and each.matches(theirs, ours) and each.asks(fields)
        ),
        None,
    )
