"""Show a tier: one summary of plain values (also the JSON), and its tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from rich.console import Console

from actors.ground.spec import CONTROLLER_GROUP, broker_name, partition_group
from actors.ground.upstream_goal import GOAL_NAMES
from cluster.cli.tables import Table
from cluster.repair import leader_of, note_of
from cluster.tier_actors import replica_actor
from cluster.tier_file import TierFile, bootstrap_of, hint

Status = Mapping[str, Any]
NO_MACHINES: Final[Mapping[str, bool]] = MappingProxyType({})
UP: Final = "up"
SILENT: Final = "silent"
"""The state of a node whose broker does not answer, as UP is of one that does."""


def summary(
    tier: TierFile, data_dir: Path, statuses: Mapping[str, Status], machines: Mapping[str, bool] = NO_MACHINES
) -> dict[str, Any]:
    """Return everything `groupd status` knows; `machines` says whose agent answers. "healthy": every Raft
    group has a leader and just the replicas that it should have, and no actor complains."""
    partitions = [_partition(tier, number, statuses) for number in range(len(tier.placement))]
    controller = _group(tier, CONTROLLER_GROUP, statuses)
    nodes = []
    for node in tier.nodes:
        status = statuses.get(broker_name(node.node_id), {})
        nodes.append(
            {
                "node_id": node.node_id,
                "host": node.host,
                "port": node.port,
                "rack": node.rack,
                "state": SILENT if "dead" in status else UP if status else "unknown",
                "machine": node.machine,
                "machine_answers": machines.get(node.machine or ""),
                **{key: status.get(key) for key in ("pid", "connections", "topics", "image_version")},
                "metrics_port": status.get("metrics_port"),
                "upstream": status.get("upstream"),
                "problem": _problem(status),
            }
        )
    running = tier.running
    groups = (controller, *partitions)
    led = all(group["leader_node"] is not None for group in groups)
    settled = not any(replica["note"] for group in groups for replica in group["replicas"])
    return {
        "tier_id": tier.tier_id,
        "bootstrap": bootstrap_of(tier.nodes) if running is None else running.bootstrap,
        "data_dir": str(data_dir.resolve()),
        "ray_address": None if running is None else running.ray_address,
        "namespace": tier.namespace,
        "pid": None if running is None else running.pid,
        "healthy": led and settled and not any(_problem(status) for status in statuses.values()),
        "nodes": nodes,
        "controller": controller,
        "partitions": partitions,
        "upstream": _upstream(tier, nodes),
        "warnings": [] if running is None else list(running.warnings),
    }


def _group(tier: TierFile, group: str, statuses: Mapping[str, Status]) -> dict[str, Any]:
    """Return what is known of one Raft group: its serving replica decides who leads; no two serve in one
    term."""
    row = tier.copies(group)
    found = [statuses.get(replica_actor(group, *copy).name, {}) for copy in row]
    leader = leader_of(found)
    leaving = {copy.replica_id for name, copy in tier.leaving if name == group}
    lag = (
        {} if leader is None else {int(each): entries for each, entries in (leader.get("lag") or {}).items()}
    )
    replicas = [
        {
            "replica": replica,
            "node_id": node_id,
            "role": "dead" if "dead" in status else status.get("role"),
            "serving": bool(status.get("serving")),
            "term": status.get("term"),
            "last_index": status.get("last_index"),
            "commit_index": status.get("commit_index"),
            "turns": status.get("turns"),
            "heard": status.get("heard"),
            "lag": lag.get(replica) if status is not leader else 0,
            "member_id": status.get("member_id"),
            "votes": _votes(leader, status),
            "note": "it is to leave" if replica in leaving else note_of(leader, status),
            "pid": status.get("pid"),
            "problem": _problem(status),
        }
        for (replica, node_id), status in zip(row, found, strict=True)
    ]
    return {
        "leader_node": None if leader is None else leader.get("node_id"),
        "term": None if leader is None else leader.get("term"),
        "replicas": replicas,
    }


def _votes(leader: Status | None, status: Status) -> bool | None:
    """Return whether a replica votes; None if it is no member, or if nobody can say."""
    members = {} if leader is None else {each["id"]: each["votes"] for each in leader.get("members", ())}
    return members.get(status.get("member_id"))


def _upstream(tier: TierFile, nodes: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return what is known of the Kafka cluster that the tier stands in front of; None: there is none."""
    told = next((node["upstream"] for node in nodes if node["upstream"]), None)
    if told is not None:
        goal = GOAL_NAMES.get(told["goal"], str(told["goal"]))
        return {"cluster_id": told["cluster_id"], "goal": goal}
    return None if tier.upstream is None else {"cluster_id": tier.upstream.cluster_id, "goal": None}


def _partition(tier: TierFile, number: int, statuses: Mapping[str, Status]) -> dict[str, Any]:
    name = partition_group(number)
    group = _group(tier, name, statuses)
    found = [statuses.get(replica_actor(name, *copy).name, {}) for copy in tier.copies(name)]
    leader = leader_of(found) or {}
    return {
        "partition": number,
        **group,
        "connections": sum(status.get("connections") or 0 for status in found),
        "groups": dict(leader.get("groups") or {}),
    }


def _problem(status: Status) -> str | None:
    if "dead" in status:
        return f"dead: {status['dead']}"
    problem: str | None = status.get("problem")
    return problem


def show_ready(
    console: Console, tier: TierFile, data_dir: Path, statuses: Mapping[str, Status], how_to_stop: str
) -> None:
    """Show the one screen after `groupd up`."""
    shown = summary(tier, data_dir, statuses)
    console.print(f"\n[bold green]groupd is ready[/bold green]  {shown['bootstrap']}\n")
    console.print(_partition_table(shown))
    for warning in shown["warnings"]:
        console.print(f"[yellow]Warning: {warning}[/yellow]", soft_wrap=True)
    console.print(f"Data directory  {shown['data_dir']}")
    console.print("\nTry next, in another terminal:")
    next_step = "topics create orders --partitions 12" if tier.upstream is None else "attach"
    for command in ("status", next_step, "groups list"):
        console.print(f"  {hint(command, data_dir).strip('`')}", soft_wrap=True)
    console.print("or point any Kafka client at the addresses above.", how_to_stop, "\n", soft_wrap=True)


def show_status(console: Console, shown: dict[str, Any]) -> None:
    """Show the tables of `groupd status`."""
    health = "[green]healthy[/green]" if shown["healthy"] else "[red]not healthy[/red]"
    console.print(f"Tier {shown['tier_id']}  {health}  {shown['bootstrap']}")
    console.print(_node_table(shown))
    if shown["upstream"] is not None:
        _show_upstream(console, shown)
    console.print(_partition_table(shown))
    groups: Counter[str] = Counter()
    for partition in shown["partitions"]:
        groups.update(partition["groups"])
    states = ", ".join(f"{count} {state}" for state, count in sorted(groups.items())) or "none"
    console.print(f"Groups: {states}")
    for problem in _complaints(shown, "problem"):
        console.print(f"[red]{problem}[/red]", soft_wrap=True)
    for note in _complaints(shown, "note"):
        console.print(f"[yellow]{note}[/yellow]", soft_wrap=True)


def _node_table(shown: dict[str, Any]) -> Table:
    table = Table("node", "address", "rack", "state", "connections", "topics", "pid")
    for node in shown["nodes"]:
        cells = [node["node_id"], f"{node['host']}:{node['port']}", node["rack"] or "-", _state(node)]
        cells += [_cell(node[key]) for key in ("connections", "topics", "pid")]
        table.add_row(*map(str, cells), style="red" if node["problem"] else None)
    return table


def _show_upstream(console: Console, shown: Mapping[str, Any]) -> None:
    """Show what the nodes are to the Kafka cluster that the tier stands in front of."""
    told = [(node["node_id"], node["upstream"]) for node in shown["nodes"] if node["upstream"]]
    upstream = shown["upstream"]
    nodes = ", ".join(
        f"node {node_id} as broker {each['broker_id']} ({each['state']})" for node_id, each in told
    )
    goal = _cell(upstream["goal"], "not known")
    console.print(
        f"In front of {upstream['cluster_id']}: {goal}; {nodes or 'no node answers'}", soft_wrap=True
    )
    for node_id, each in told:
        if each["problem"]:
            console.print(f"[yellow]node {node_id}, upstream: {each['problem']}[/yellow]", soft_wrap=True)


def _state(node: Mapping[str, Any]) -> str:
    """Return a node's state in words: what is said of its machine explains it."""
    away = node["machine_answers"] is False
    return f"{node['state']}, machine {node['machine']} is away" if away else str(node["state"])


def _partition_table(shown: dict[str, Any]) -> Table:
    columns = ("partition", "leader", "followers (lag)", "term", "connections", "groups")
    table = Table(*columns)
    rows = [("controller", shown["controller"])]
    rows += [(str(partition["partition"]), partition) for partition in shown["partitions"]]
    for name, group in rows:
        followers = [
            f"{replica['node_id']} ({'dead' if replica['role'] == 'dead' else _cell(replica['lag'])})"
            for replica in group["replicas"]
            if replica["lag"] != 0 or replica["role"] != "leader"
        ]
        table.add_row(
            name,
            _cell(group["leader_node"], "none"),
            ", ".join(followers) or "-",
            _cell(group["term"]),
            _cell(group.get("connections")),
            ", ".join(f"{count} {state}" for state, count in sorted(group.get("groups", {}).items())) or "-",
            style="red" if group["leader_node"] is None else None,
        )
    return table


def _complaints(shown: dict[str, Any], kind: str) -> list[str]:
    """Return the "problem" or the "note" of everybody who has one."""
    found = [f"node {node['node_id']}: {node[kind]}" for node in shown["nodes"] if node.get(kind)]
    groups = [("controller", shown["controller"])]
    groups += [(f"partition {partition['partition']}", partition) for partition in shown["partitions"]]
    for name, group in groups:
        found += [
            f"{name}, replica {replica['replica']} on node {replica['node_id']}: {replica[kind]}"
            for replica in group["replicas"]
            if replica[kind]
        ]
    return found


def _cell(value: Any, none: str = "-") -> str:
    return none if value is None else str(value)
