"""A tier as it is shown: one summary of plain values (also the JSON), and its tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from actors.spec import broker_name, controller_name, partition_name
from cluster.tier_file import TierFile

Status = Mapping[str, Any]


def summary(tier: TierFile, data_dir: Path, statuses: Mapping[str, Status]) -> dict[str, Any]:
    """Everything `groupd status` knows. "healthy": every Raft group has a leader and no actor complains."""
    partitions = [_partition(number, row, statuses) for number, row in enumerate(tier.placement)]
    controller = _group(
        tier.controllers, [controller_name(r) for r in range(len(tier.controllers))], statuses
    )
    nodes = []
    for node in tier.nodes:
        status = statuses.get(broker_name(node.node_id), {})
        nodes.append(
            {
                "node_id": node.node_id,
                "host": node.host,
                "port": node.port,
                "rack": node.rack,
                **{key: status.get(key) for key in ("pid", "connections", "topics", "image_version")},
                "problem": _problem(status),
            }
        )
    running = tier.running
    led = all(group["leader_node"] is not None for group in (controller, *partitions))
    return {
        "tier_id": tier.tier_id,
        "bootstrap": None if running is None else running.bootstrap,
        "data_dir": str(data_dir.resolve()),
        "ray_address": None if running is None else running.ray_address,
        "namespace": tier.namespace,
        "pid": None if running is None else running.pid,
        "healthy": led and not any(_problem(status) for status in statuses.values()),
        "nodes": nodes,
        "controller": controller,
        "partitions": partitions,
    }


def _group(row: tuple[int, ...], names: list[str], statuses: Mapping[str, Status]) -> dict[str, Any]:
    """One Raft group: its serving replica decides who leads; no two serve in one term."""
    found = [statuses.get(name, {}) for name in names]
    serving = [status for status in found if status.get("serving")]
    leader = max(serving, key=lambda status: status.get("term") or 0, default=None)
    lag = (
        {} if leader is None else {int(node): entries for node, entries in (leader.get("lag") or {}).items()}
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
            "lag": lag.get(node_id) if status is not leader else 0,
            "pid": status.get("pid"),
            "problem": _problem(status),
        }
        for replica, (node_id, status) in enumerate(zip(row, found, strict=True))
    ]
    return {
        "leader_node": None if leader is None else leader.get("node_id"),
        "term": None if leader is None else leader.get("term"),
        "replicas": replicas,
    }


def _partition(number: int, row: tuple[int, ...], statuses: Mapping[str, Status]) -> dict[str, Any]:
    names = [partition_name(number, replica) for replica in range(len(row))]
    group = _group(row, names, statuses)
    found = [statuses.get(name, {}) for name in names]
    leader = next((status for status in found if status.get("serving")), {})
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
    console: Console, tier: TierFile, data_dir: Path, statuses: Mapping[str, Status], hint: str
) -> None:
    """The one screen after `groupd up`."""
    shown = summary(tier, data_dir, statuses)
    console.print(f"\n[bold green]groupd is ready[/bold green]  {shown['bootstrap']}\n")
    console.print(_partition_table(shown))
    console.print(f"Data directory  {shown['data_dir']}")
    where = "" if data_dir == Path("groupd-data") else f" --data-dir {data_dir}"
    console.print("\nTry next, in another terminal:")
    for line in (
        f"groupd status{where}",
        f"groupd topics create orders --partitions 12{where}",
        f"groupd groups list{where}",
    ):
        console.print(f"  {line}")
    console.print("or point any Kafka client at the addresses above.", hint, "\n", soft_wrap=True)


def show_status(console: Console, shown: dict[str, Any]) -> None:
    """The tables of `groupd status`."""
    health = "[green]healthy[/green]" if shown["healthy"] else "[red]not healthy[/red]"
    console.print(f"Tier {shown['tier_id']}  {health}  {shown['bootstrap']}")
    console.print(_node_table(shown))
    console.print(_partition_table(shown))
    groups: Counter[str] = Counter()
    for partition in shown["partitions"]:
        groups.update(partition["groups"])
    states = ", ".join(f"{count} {state}" for state, count in sorted(groups.items())) or "none"
    console.print(f"Groups: {states}")
    for problem in _problems(shown):
        console.print(f"[red]{problem}[/red]", soft_wrap=True)


def _node_table(shown: dict[str, Any]) -> Table:
    table = Table("node", "address", "rack", "connections", "topics", "pid", box=None, pad_edge=False)
    for node in shown["nodes"]:
        cells = [node["node_id"], f"{node['host']}:{node['port']}", node["rack"] or "-"]
        cells += [_cell(node[key]) for key in ("connections", "topics", "pid")]
        table.add_row(*map(str, cells), style="red" if node["problem"] else None)
    return table


def _partition_table(shown: dict[str, Any]) -> Table:
    columns = ("partition", "leader", "followers (lag)", "term", "connections", "groups")
    table = Table(*columns, box=None, pad_edge=False)
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


def _problems(shown: dict[str, Any]) -> list[str]:
    found = [f"node {node['node_id']}: {node['problem']}" for node in shown["nodes"] if node["problem"]]
    groups = [("controller", shown["controller"])]
    groups += [(f"partition {partition['partition']}", partition) for partition in shown["partitions"]]
    for name, group in groups:
        found += [
            f"{name}, replica on node {replica['node_id']}: {replica['problem']}"
            for replica in group["replicas"]
            if replica["problem"]
        ]
    return found


def _cell(value: Any, none: str = "-") -> str:
    return none if value is None else str(value)
