"""`groupd capacity`: how large a tier has to be for a load, from measured costs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cluster import capacity_page
from cluster.capacity import page
from cluster.capacity.costs import Costs, CostsError, parse
from cluster.capacity.plan import Tier, TooLargeError, plan
from cluster.capacity.units import UnitError, seconds, shown_bytes, shown_seconds, size
from cluster.capacity.workload import Machine, NonsenseError, Safety, Workload
from cluster.cli.common import EXIT_WRONG_SETTING, JsonOption, console, examples, fail, print_json
from cluster.cli.tables import Table

NEVER = "never"


def register(app: typer.Typer) -> None:
    lines = (
        "groupd capacity --members 1000000 --heartbeat 5s --commit 5s",
        "groupd capacity --members 50000 --commit never --cores 8 --memory 32GiB",
        "groupd capacity --members 10000 --replicas 5 --lose 2 --json",
    )
    app.command("capacity", epilog=examples(*lines))(capacity)


def capacity(
    members: Annotated[int, typer.Option(help="Members of all groups together.")],
    heartbeat: Annotated[str, typer.Option(help="Time between two heartbeats of a member.")] = "5s",
    commit: Annotated[str, typer.Option(help="Time between two commits of a member, or never.")] = "5s",
    offsets: Annotated[int, typer.Option(help="Partitions of a member, committed together.")] = 2,
    group_size: Annotated[int, typer.Option(help="Members of a group.")] = 10,
    name_bytes: Annotated[
        int, typer.Option(help="Mean length of the names of clients, groups and topics.")
    ] = 20,
    rebalance: Annotated[str, typer.Option(help="Time between two rebalances of a group, or never.")] = "1h",
    protocol: Annotated[str, typer.Option(help="Protocol of the groups: consumer or classic.")] = "consumer",
    hold: Annotated[
        bool, typer.Option("--hold/--no-hold", help="Heartbeats are held, as Java's and librdkafka's are.")
    ] = True,
    cores: Annotated[int, typer.Option(help="Processors of a machine.")] = 16,
    memory: Annotated[str, typer.Option(help="Memory of a machine.")] = "64GiB",
    replicas: Annotated[int, typer.Option(help="Copies of each offsets partition.")] = 3,
    lose: Annotated[int, typer.Option(help="Machines that may be lost.")] = 1,
    costs: Annotated[
        Path | None,
        typer.Option(help="A file of `groupd bench costs`. (default what was measured for this release)"),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Say how large a tier has to be for a load: machines, processors, memory, disk and network.

    Computed from measured costs; nothing is started or asked. Exit code 2: the load makes no sense; 1: no
    tier carries it.
    """
    try:
        if protocol not in ("consumer", "classic"):
            raise NonsenseError(f"--protocol {protocol}: consumer or classic is expected")
        load = Workload(
            members=members,
            group_size=min(group_size, members) if members > 0 else group_size,
            heartbeat_s=_time("--heartbeat", heartbeat),
            commit_s=None if commit == NEVER else _time("--commit", commit),
            offsets=offsets,
            rebalance_s=None if rebalance == NEVER else _time("--rebalance", rebalance),
            protocol="consumer" if protocol == "consumer" else "classic",
            is_held=hold,
            name_bytes=name_bytes,
        )
        machine = Machine(cores, _size("--memory", memory))
        found = _costs(costs)
        tier = plan(load, machine, Safety(replicas, lose), found)
    except NonsenseError as error:
        fail(str(error), EXIT_WRONG_SETTING)
    except (TooLargeError, CostsError) as error:
        fail(str(error))
    if as_json:
        print_json(_plain(tier, load, machine, found))
    else:
        _show(tier, load, machine, found)


def _time(flag: str, text: str) -> float:
    try:
        return seconds(text)
    except UnitError as error:
        raise NonsenseError(f"{flag} {error}") from None


def _size(flag: str, text: str) -> float:
    try:
        return size(text)
    except UnitError as error:
        raise NonsenseError(f"{flag} {error}") from None


def _costs(path: Path | None) -> Costs:
    if path is None:
        return capacity_page.costs()
    try:
        return parse(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise CostsError(f"--costs {path}: {getattr(error, 'strerror', None) or error}") from None
    except CostsError as error:
        raise CostsError(f"--costs {path}: {error}") from None


def _show(tier: Tier, load: Workload, machine: Machine, costs: Costs) -> None:
    commits = "no commits" if load.commit_s is None else f"a commit every {shown_seconds(load.commit_s)}"
    title = (
        f"{load.members:,} members in groups of {load.group_size}, a heartbeat every "
        f"{shown_seconds(load.heartbeat_s)}, {commits}; machines of {machine.cores} cores and "
        f"{shown_bytes(machine.memory_bytes)}\n"
    )
    table = Table(title=title, show_header=False)
    for name, value in page.cells(tier).items():
        table.add_row(name, value)
    console.print(table)
    console.print()
    for line in _remarks(load, costs):
        console.print(line, soft_wrap=True, markup=False)
    console.print(f"groupd up {page.settings(tier)}", soft_wrap=True, markup=False)


def _remarks(load: Workload, costs: Costs) -> list[str]:
    """Say how much these figures can be trusted."""
    check = capacity_page.last_check(costs)
    lines = [
        "Of a machine: while all are there / after a loss.",
        f"Costs measured {costs.measured.date}: {costs.measured.machine}.",
    ]
    made = [(costs.measured, "costs")]
    if check is None:
        lines.append("Nobody has put the model beside a tier yet.")
    else:
        made.append((check.measured, "check"))
        off = f"The model was off by {page.errors(check)} at most, with up to {check.largest:,} members."
        lines.append(off)
        if load.members > check.largest:
            lines.append(f"{load.members:,} members are extrapolated from there.")
    for measured, what in made:
        if not measured.is_quotable:
            share = f"{measured.foreign:.0%} of the processors"
            lines.append(f"Preliminary {what}: other programs had {share} meanwhile.")
    return lines


def _plain(tier: Tier, load: Workload, machine: Machine, costs: Costs) -> dict[str, Any]:
    check = capacity_page.last_check(costs)
    needs = tier.needs
    return {
        "load": {key: value for key, value in load._asdict().items() if key != "age_s"},
        "machine": machine._asdict(),
        "shape": tier.shape._asdict(),
        "tier": {
            "cores": needs.cores,
            "memory_bytes": needs.memory_bytes,
            "disk_write_bytes_s": needs.disk_write_bytes_s,
            "disk_bytes": needs.disk_bytes,
            "leader": needs.leader._asdict(),
            "follower": needs.follower._asdict(),
            "traffic": needs.traffic._asdict(),
            "fullest_leader_cores": tier.fullest_leader_cores,
        },
        "per_machine": {"whole": tier.whole._asdict(), "after_loss": tier.lost._asdict()},
        "connections_per_node": tier.connections_per_node,
        "decided_by": tier.decided_by,
        "flags": page.settings(tier),
        "costs": costs.measured._asdict(),
        "check": None
        if check is None
        else {
            "members_max": check.largest,
            "errors": {name: check.worst(name) for name in check.sizes[0].measured},
        },
    }
