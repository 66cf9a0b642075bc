"""The page of the costs, the check and the tiers that follow from them. PURE."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from cluster.capacity.checked import FIGURES, Checked, Size
from cluster.capacity.costs import CURVES, FOREIGN_MAX, ROWS, Costs, Measured
from cluster.capacity.model import ASSUMED
from cluster.capacity.plan import CONNECTIONS_DEFAULT, LIMITS, Tier, TooLargeError, plan
from cluster.capacity.units import quantity, short, shown_bytes, shown_seconds
from cluster.capacity.workload import Machine, Safety, Workload

MEMBERS: Final = (10_000, 100_000, 1_000_000, 10_000_000)
COMMITS_S: Final = (5.0, 60.0)
"""The intervals between commits of the page's two tables."""
UNCHECKED: Final = ("Nobody has put this model beside a tier yet: `groupd bench capacity-check`.", "")
DECIDED_BY: Final = "decided by"
NOT_SEEN: Final = (
    "the network cards' and the kernel's own threads, and a file system's own writing",
    "the minutes after a loss, in which members connect again and copies are built anew",
    "TLS, SASL and ACLs, transactions, topics with records, monitors that read `__consumer_offsets`",
    "what a join writes to the journal, and rebalances that are larger than a whole group's join",
    "the controller's work for hundreds of partitions, and what nodes tell each other of them",
)
"""What is in no figure."""
HEAD: Final = """\
# How large a tier has to be

Made by `python -m cluster.capacity_page > deploy/CAPACITY.md`; a test compares them.

`groupd capacity` says it for your load. This page shows what it says for four sizes, how far that was from
what was measured, and what it is made of: [the sizes](#sizes), [the check](#the-check), [the rules](#rules),
[the costs](#costs). What happened in the past is another matter: `groupd history` has a table of that.

```sh
groupd capacity --members 1000000 --heartbeat 5s --commit 5s
groupd capacity --members 50000 --commit 1m --cores 8 --memory 32GiB --json
```
"""


def markdown(costs: Costs, checked: Checked | None) -> str:
    """Return the whole page."""
    lines = [HEAD, *_warning(costs.measured, "The costs are")]
    if checked is not None:
        lines += _warning(checked.measured, "The check is")
    lines += ["## Sizes", "", *_sizes(costs, checked)]
    lines += ["## The check", "", *(UNCHECKED if checked is None else _check(checked))]
    lines += ["## Rules", "", *_rules()]
    lines += ["## Costs", "", *_costs(costs)]
    return "\n".join(lines)


def _warning(measured: Measured, what: str) -> Iterator[str]:
    if not measured.is_quotable:
        yield (
            f"**{what} preliminary:** other programs had {measured.foreign:.0%} of the processors meanwhile, "
            f"more than the {FOREIGN_MAX:.0%} that figures to be quoted allow."
        )
        yield ""


def _sizes(costs: Costs, checked: Checked | None) -> Iterator[str]:
    machine, safety, example = Machine(), Safety(), Workload(MEMBERS[0])
    ends = "is yet to be made" if checked is None else f"ends at {checked.largest:,} members on one machine"
    yield (
        f"Machines of {machine.cores} cores and {shown_bytes(machine.memory_bytes)}, {safety.copies} copies, "
        f"{safety.lost} machine may be lost; groups of {example.group_size}, a heartbeat every "
        f"{shown_seconds(example.heartbeat_s)} (held, as those of Java's and librdkafka's clients), "
        f"{example.offsets} partitions a member, a rebalance of each group every "
        f"{shown_seconds(example.rebalance_s or 0)}. Per machine: while all are there / after the loss. The "
        f"check below {ends}, and `groupd bench million` had a million members that only heartbeat: **what "
        "is above is extrapolated**."
    )
    yield ""
    for commit_s in COMMITS_S:
        yield from (f"A commit of each member every {shown_seconds(commit_s)}:", "")
        tiers = [_cells(Workload(members, commit_s=commit_s), costs) for members in MEMBERS]
        yield from _table(("members", *(f"{members:,}" for members in MEMBERS)), _tier_rows(tiers))
        yield ""


def _cells(load: Workload, costs: Costs) -> Mapping[str, str]:
    try:
        return cells(plan(load, Machine(), Safety(), costs))
    except TooLargeError as error:
        return {DECIDED_BY: str(error)}


def _tier_rows(columns: Sequence[Mapping[str, str]]) -> Iterator[Sequence[str]]:
    for name in max(columns, key=len):
        yield name, *(column.get(name, "-") for column in columns)


def cells(tier: Tier) -> dict[str, str]:
    """What is said of a tier, by name."""
    whole, lost = tier.whole, tier.lost

    def both(of_whole: float, of_lost: float, unit: str = "") -> str:
        shown = short if not unit else lambda value: f"{shown_bytes(value)}{unit}"
        return f"{shown(of_whole)} / {shown(of_lost)}"

    return {
        "machines, one node each": f"{tier.shape.machines}",
        "offsets partitions": f"{tier.shape.partitions}",
        "cores, all machines": short(tier.needs.cores),
        "cores of a machine": both(whole.cores, lost.cores),
        "cores of the fullest leader": f"{tier.fullest_leader_cores:.2f}",
        "memory of a machine": f"{shown_bytes(whole.memory_bytes)} / {shown_bytes(lost.memory_bytes)}",
        "disk of a machine, written": both(whole.disk_write_bytes_s, lost.disk_write_bytes_s, "/s"),
        "disk of a machine, kept": f"{shown_bytes(whole.disk_bytes)} / {shown_bytes(lost.disk_bytes)}",
        "network of a machine, received": both(whole.received_bytes_s, lost.received_bytes_s, "/s"),
        "network of a machine, sent": both(whole.sent_bytes_s, lost.sent_bytes_s, "/s"),
        "connections of a node, after a loss": f"{tier.connections_per_node:,}",
        DECIDED_BY: tier.decided_by,
    }


def settings(tier: Tier) -> str:
    """The flags of `groupd up` that make the tier."""
    shape = tier.shape
    flags = f"--nodes {shape.nodes} --replicas {shape.copies} --partitions {shape.partitions}"
    if tier.connections_per_node > CONNECTIONS_DEFAULT:
        connections = tier.connections_per_node
        flags += f" --set max.connections={connections} --set max.connections.per.ip={connections}"
    return flags


def _check(checked: Checked) -> Iterator[str]:
    shape, where = checked.shape, checked.measured
    load = checked.sizes[0].load
    yield (
        f"{_where(where)} Each size on a tier of its own, {shape.nodes} nodes, {shape.partitions} offsets "
        f"partitions and {shape.copies} copies on one machine, which the swarm shared: {load.protocol} "
        f"members in groups of {load.group_size}, a heartbeat every {shown_seconds(load.heartbeat_s)}, a "
        f"commit of {load.offsets} offsets every {shown_seconds(load.commit_s or 0)}. Model, measured, and "
        "by how much the model is off:"
    )
    yield ""
    yield from _table(
        ("", *(f"{size.load.members:,} members" for size in checked.sizes)),
        (
            (figure.meaning, *(compared(size, name) for size in checked.sizes))
            for name, figure in FIGURES.items()
        ),
    )
    yield ""
    yield f"The largest error: {errors(checked)}."
    yield ""
    for reason in checked.unseen:
        yield from (f"**Not shown:** {reason}.", "")


def _where(measured: Measured) -> str:
    return (
        f"`{measured.command}`, {measured.date}, {measured.machine}; other programs had "
        f"{measured.foreign:.0%} of the processors."
    )


def errors(checked: Checked) -> str:
    """The largest errors of a check, in words."""
    parts = {"CPU": "cores", "memory": "memory_bytes", "disk": "disk_bytes_s"}
    network = max(map(checked.worst, ("clients_in_bytes_s", "clients_out_bytes_s")), key=abs)
    shown = [f"{name} {checked.worst(figure):+.0%}" for name, figure in parts.items()]
    return ", ".join((*shown, f"network {network:+.0%}"))


def compared(size: Size, name: str) -> str:
    unit = FIGURES[name].unit
    shown = shown_bytes if unit.startswith("bytes") else short
    return f"{shown(size.modelled[name])}, {shown(size.measured[name])}: {size.error(name):+.0%}"


def _rules() -> Iterator[str]:
    yield "The smallest tier within these limits:"
    yield ""
    rows = ((f"{limit.value:,g}", limit.why) for limit in LIMITS.values())
    yield from _table(("limit", "of what"), rows)
    yield ""
    yield "Assumed, and measured by nobody here:"
    yield ""
    yield from _table(
        ("value", "what"), ((quantity(each.value, each.unit), each.why) for each in ASSUMED.values())
    )
    yield ""
    yield "In no figure:"
    yield ""
    yield from (f"- {each}" for each in NOT_SEEN)
    yield ""


def _costs(costs: Costs) -> Iterator[str]:
    yield (
        f"{_where(costs.measured)} Three nodes and three copies on one machine; CPU, memory and disk are "
        "from the kernel's accounts of each process."
    )
    yield ""
    yield (
        "What a request costs depends on how many of them a process gets per second: one that is asked "
        "seldom has cold caches, and syncs each commit alone. The model goes from one measurement to the "
        "next, and says beyond the last rate what was measured there:"
    )
    yield ""
    rows = (
        (
            row.meaning,
            row.unit,
            ", ".join(f"{short(each)} at {short(per_s)}/s" for per_s, each in costs.curves[name].points),
        )
        for name, row in CURVES.items()
    )
    yield from _table(("", "unit", "measured"), rows)
    yield ""
    found = ((row.meaning, quantity(costs[name], row.unit)) for name, row in ROWS.items())
    yield from _table(("what", "costs"), found)


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(headings)} |"
    yield f"|{'---|' * len(headings)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)
