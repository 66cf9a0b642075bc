"""`groupd bench`: measurements on this machine, against throw-away tiers."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bench.attached import command as attached_command
from bench.capacity import command as capacity_command
from bench.ground import run_names
from bench.ground.interrupts import terminable
from bench.ground.machine import machine
from bench.ground.progress import progress
from bench.ground.reference import KAFKA_VERSION
from bench.history import jobs_command
from bench.in_front import command as in_front_command
from bench.push import bench_command as push_command
from bench.raft import measure as raft
from bench.raft import table as raft_table
from bench.replica import snapshot_pause, soak_command
from bench.tier import basics, idle_command, path_command
from cluster.cli.common import console
from cluster.cli.tables import Table

if TYPE_CHECKING:
    from bench.hold.clients import Plan as HoldPlan

app = typer.Typer(
    no_args_is_help=True,
    help="Measure the tier on this machine.",
    rich_markup_mode="rich",
    epilog="[bold]Examples[/bold]\n\n  groupd bench basics\n\n  groupd bench raft --kills 3",
)
KafkaHome = Annotated[
    Path | None,
    typer.Option(envvar="KAFKA_HOME", help="A Kafka 4 distribution, or a directory with its jars."),
]
for command in (
    *(attached_command, in_front_command, capacity_command, jobs_command),
    *(idle_command, path_command, push_command, soak_command),
):
    command.register(app)
HOME = f"~/kafka_2.13-{KAFKA_VERSION}"
"""Where the examples find Kafka."""
PEERS_HELP = "Peers by name, as a,b. (default all that can run here, without unsynced-1 and -3)"


@app.callback()
def bench(context: typer.Context) -> None:
    """Measure the tier on this machine."""
    context.with_resource(terminable())


@app.command(
    "basics",
    epilog="[bold]Examples[/bold]\n\n  groupd bench basics\n\n  groupd bench basics --kills 5 --json",
)
def basics_command(
    seconds: Annotated[float, typer.Option(help="Seconds of each load.", min=1)] = 10.0,
    kills: Annotated[int, typer.Option(help="How often a leader is killed.", min=1)] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Measure CPU per heartbeat and commit, failover, start time and memory.

    Starts throw-away tiers on free ports of this machine and stops them.
    """
    figures = basics.measure(_say(as_json), seconds, kills)
    if as_json:
        typer.echo(json.dumps({"machine": machine(), "figures": [f._asdict() for f in figures]}, indent=2))
        return
    table = Table("what", title=machine())
    table.add_column("figure", justify="right")
    table.add_column("unit")
    table.add_column("how")
    for figure in figures:
        table.add_row(figure.name, f"{figure.value:,.1f}", figure.unit, figure.note)
    console.print(table)


@app.command(
    "raft",
    epilog="[bold]Examples[/bold]\n\n  groupd bench raft\n\n"
    "  groupd bench raft --no-stock --journal-mib 1024\n\n  groupd bench raft --seconds 5 --json",
)
def raft_command(
    seconds: Annotated[float, typer.Option(help="Seconds of each load.", min=0.1)] = 1.0,
    kills: Annotated[int, typer.Option(help="Leaders killed and handed over, in each variant.", min=0)] = 10,
    idle_seconds: Annotated[float, typer.Option(help="Seconds of idling.", min=0.1)] = 10.0,
    journal_mib: Annotated[int, typer.Option(help="MiB of journal to recover from.", min=1)] = 256,
    with_stock: Annotated[bool, typer.Option("--stock/--no-stock", help="Measure pysyncobj too.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Measure groupd's Raft side by side with stock pysyncobj, in processes of their own. Takes 3 minutes.

    Commit latency, records a second, CPU, failover, transfer, idling and recovery, without and with sync.
    """
    work = raft.Work(
        seconds=seconds,
        kills=kills,
        idle_seconds=idle_seconds,
        journal_mib=journal_mib,
        with_stock=with_stock,
    )
    result = raft.measure(work, _say(as_json))
    if as_json:
        typer.echo(json.dumps(raft_table.as_json(result, machine()), indent=2))
    else:
        raft_table.show(console, result, machine())
    if any(result.figures[variant.name].problems for variant in raft.OURS):
        raise typer.Exit(1)


@app.command(
    "hold",
    epilog="[bold]Examples[/bold]\n\n  groupd bench hold\n\n"
    "  groupd bench hold --sizes 3 --rounds 10\n\n  groupd bench hold --kafka localhost:9092 --json\n\n"
    f"  groupd bench hold --clients Java,confluent-kafka --rounds 3 --kafka-home {HOME}\n\n"
    "  groupd bench hold --clients confluent-kafka --servers held --rounds 0 --idle-minutes 10",
)
def hold_command(
    sizes: Annotated[str, typer.Option(help="Members of each group, as 3,1000.")] = "3,1000",
    rounds: Annotated[
        int, typer.Option(help="How many joins and how many leaves each group has.", min=0)
    ] = 10,
    idle_seconds: Annotated[
        float, typer.Option(help="Seconds in which idle heartbeats are counted.", min=1)
    ] = 30.0,
    kafka: Annotated[str, typer.Option(help="host:port of a Kafka to measure, too.")] = "",
    clients: Annotated[
        str, typer.Option(help="Real clients in place of simulated members: Java,confluent-kafka.")
    ] = "",
    servers: Annotated[str, typer.Option(help="Servers for --clients.")] = "held,not held,Kafka",
    idle_minutes: Annotated[float, typer.Option(help="Minutes of idling with --clients.", min=0)] = 0.0,
    kafka_home: KafkaHome = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Measure how soon a whole group knows of a join or a leave, with held heartbeats and without.

    With --clients also close, commit, a new subscription, a slow revocation; Kafka is started and stopped.
    """
    # Not at the top: every command of `groupd` imports this module.
    if clients:
        from bench.hold.clients import Plan

        names, chosen = tuple(clients.split(",")), tuple(servers.split(","))
        _hold_clients(Plan(names, rounds, idle_minutes, kafka_home, chosen), as_json=as_json)
        return
    from bench.hold import measure as hold

    try:
        plan = hold.Plan(tuple(int(size) for size in sizes.split(",")), max(rounds, 1), idle_seconds, kafka)
    except ValueError:
        typer.echo(f"groupd: --sizes {sizes}: whole numbers such as 3,1000 are expected", err=True)
        raise typer.Exit(2) from None
    rows = hold.measure(plan, _say(as_json))
    if as_json:
        typer.echo(json.dumps({"machine": machine(), "rows": hold.as_json(rows)}, indent=2))
    else:
        hold.show(console, rows, machine())


def _hold_clients(plan: HoldPlan, *, as_json: bool) -> None:
    from bench.clients.programs import CLIENTS, CannotRunError
    from bench.hold import clients as hold_clients

    known = (*CLIENTS, *hold_clients.SERVERS)
    unknown = [name for name in (*plan.clients, *plan.servers) if name not in known]
    if unknown:
        typer.echo(f"groupd: {', '.join(unknown)}: no such client or server", err=True)
        raise typer.Exit(2)
    try:
        measured = hold_clients.measure(plan, _say(as_json))
    except CannotRunError as error:
        typer.echo(f"groupd: {error}", err=True)
        raise typer.Exit(1) from None
    if as_json:
        typer.echo(json.dumps({"machine": machine(), **hold_clients.as_json(measured)}, indent=2))
    else:
        hold_clients.show(console, measured, machine())


@app.command("snapshot", epilog="[bold]Examples[/bold]\n\n  groupd bench snapshot")
def snapshot_command(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Measure the longest pause that a snapshot of 100,000 live offsets makes in serving requests."""
    if not as_json:
        snapshot_pause.main()
        return
    pauses = [snapshot_pause.measure(groups=groups)._asdict() for groups in snapshot_pause.GROUPS]
    typer.echo(json.dumps({"machine": machine(), "pauses": pauses}, indent=2))


@app.command(
    "peers",
    epilog="[bold]Examples[/bold]\n\n  groupd bench peers --quick --peers groupd-1,floor --work 1\n\n"
    f"  groupd bench peers --kafka-home {HOME}\n\n"
    f"  groupd bench peers --kafka-home {HOME} --work 6,7   [dim]# adds to what is there[/dim]",
)
def peers_command(
    peers: Annotated[
        str,
        typer.Option(help=PEERS_HELP),
    ] = "",
    work: Annotated[str, typer.Option(help="Numbers of the work to do, as 1,2. (default all)")] = "",
    runs: Annotated[int, typer.Option(help="Runs of each scenario on each peer, interleaved.", min=1)] = 5,
    seconds: Annotated[float, typer.Option(help="Seconds of each load.", min=0.1)] = 1.0,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, one run: does it all work?")] = False,
    out: Annotated[
        Path,
        typer.Option(
            help="Directory for JSON, Markdown and plots. It keeps earlier calls' works.", file_okay=False
        ),
    ] = Path("bench-peers"),
    kafka_home: KafkaHome = None,
) -> None:
    """Put one load on our tier, Apache Kafka, librdkafka's mock cluster, kfake and a bare server.

    Work: 1 heartbeats, 2 offsets, 3 storms of joins, 4 a KIP-848 group of 1,000 members, 5 failover,
    6 memory, 7 start, 8 idle, 9 a day's work. Peers that cannot run here are skipped by
    name.
    """
    # Not at the top: every command of `groupd` imports this module.
    from bench.peers.compared import command
    from bench.peers.compared.registry import WORKS, peers_named, works_numbered
    from bench.peers.options import Options

    options = Options(
        runs=1 if quick else runs,
        seconds=min(seconds, 1.0) if quick else seconds,
        quick=quick,
        kafka_home=kafka_home,
    )

    def wanted() -> command.Wanted:
        chosen = [peer_type(options) for peer_type in peers_named(peers)]
        scenarios = [scenario for number in works_numbered(work) for scenario in WORKS[number](options)]
        return command.Wanted(chosen, scenarios, options, machine(), out)

    command.carry_out(wanted, console)


@app.command(
    "kernels",
    epilog="[bold]Examples[/bold]\n\n  groupd bench kernels\n\n"
    "  groupd bench kernels --members 10000 --topics 1000 --ratio 50 --json-file kernels.json",
)
def kernels_command(
    members: Annotated[
        str, typer.Option(help="Sizes of groups, with commas between them.")
    ] = "100,1000,10000",
    topics: Annotated[str, typer.Option(help="Numbers of topics, with commas between them.")] = "100,1000",
    ratio: Annotated[str, typer.Option(help="Partitions per member; Kafka measures 5,10,50.")] = "50",
    racks: Annotated[bool, typer.Option("--racks/--no-racks", help="Measure with racks, too.")] = True,
    runs: Annotated[int, typer.Option(help="Runs of each side on each shape, in turn.", min=1)] = 5,
    seconds: Annotated[float, typer.Option(help="Seconds of each run.", min=0.01)] = 0.1,
    warm_up: Annotated[float, typer.Option(help="Seconds in which the JVM warms up.", min=0)] = 20.0,
    kafka_home: KafkaHome = None,
    json_file: Annotated[Path | None, typer.Option(help="Write every figure into this file.")] = None,
) -> None:
    """Time our assignors and Kafka's own in Java, on the shapes of its JMH benchmark. Takes a few minutes.

    A run goes from the group's arrays to every member's sorted partitions. Kafka's jars come by Maven unless
    there is a directory of them. Without a JDK or the jars, ours alone are timed.
    """
    from bench.kernels import measure, table
    from bench.kernels.shapes import Choice

    try:
        sizes, widths, ratios = ([int(n) for n in text.split(",")] for text in (members, topics, ratio))
        shapes = list(Choice(sizes, widths, ratios, racks).shapes())
    except ValueError as error:
        typer.echo(f"groupd: {error}", err=True)
        raise typer.Exit(2) from None
    plan = measure.Plan(runs, seconds, warm_up, kafka_home)
    with console.status("begins") as status:
        try:
            result = measure.measure(shapes, plan, progress(status.update))
        except measure.JavaError as error:
            typer.echo(f"groupd: {error}", err=True)
            raise typer.Exit(1) from None
    on = f"{machine()}, numba {version('numba')}, numpy {version('numpy')}"
    table.show(console, result, on)
    if json_file is not None:
        json_file.write_text(json.dumps(table.as_json(result, on), indent=2) + "\n", encoding="utf-8")


@app.command(
    "rolling-restart",
    epilog="[bold]Examples[/bold]\n\n  groupd bench rolling-restart --members 60\n\n"
    f"  groupd bench rolling-restart --peers groupd-1,kafka-1 --kafka-home {HOME}",
)
def rolling_restart_command(
    peers: Annotated[str, typer.Option(help="Peers of `groupd bench peers`.")] = "groupd-1,kafka-1",
    members: Annotated[int, typer.Option(help="Members, restarted one by one.", min=2)] = 200,
    away_seconds: Annotated[float, typer.Option(help="Seconds that each is gone.", min=0.1)] = 2.0,
    next_seconds: Annotated[float, typer.Option(help="Seconds until the next one goes.", min=0.1)] = 3.0,
    kafka_home: KafkaHome = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Count the rebalances of a rolling restart of a classic group, on all servers at the same time."""
    # Not at the top: every command of `groupd` imports this module.
    from bench.peers.compared.registry import UnknownName, peers_named
    from bench.peers.options import Options
    from bench.tier import rolling_restart

    try:
        chosen = peers_named(peers)
    except UnknownName as error:
        typer.echo(f"groupd: {error}", err=True)
        raise typer.Exit(2) from None
    plan = rolling_restart.Plan(members, away_seconds, next_seconds)
    counted = rolling_restart.measure(chosen, Options(kafka_home=kafka_home), plan, _say(as_json))
    if as_json:
        typer.echo(json.dumps({"machine": machine(), "counted": [c._asdict() for c in counted]}, indent=2))
        return
    table = Table(title=machine())
    for column in ("server", "members", "rebalances", "members lost"):
        table.add_column(column, justify="left" if column == "server" else "right")
    for each in counted:
        table.add_row(each.peer, f"{each.members:,}", f"{each.rebalances:,}", f"{each.lost_members:,}")
    console.print(table)


@app.command(
    "swarms",
    epilog="[bold]Examples[/bold]\n\n  groupd bench swarms --quick\n\n"
    f"  groupd bench swarms --kafka-home {HOME} --out compared",
)
def swarms_command(
    seed: Annotated[int, typer.Option(help="Seed of the plans, the same on both servers.", min=0)] = 1,
    quick: Annotated[bool, typer.Option("--quick", help="Short swarms: does it all work?")] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="A new directory (default groupd-swarm/compared-TIME).", file_okay=False),
    ] = None,
    kafka_home: KafkaHome = None,
) -> None:
    """Run swarms on our tier and then on Apache Kafka, three nodes each. Takes 15 minutes.

    Steady, a rolling deploy, a storm of joins, and a leader killed in the middle of a steady swarm: time to
    stable, rebalances, time without coordinator. Of each swarm there is a report as of `groupd swarm run`.
    """
    # Not at the top: every command of `groupd` imports this module.
    from bench.swarm.told import compare
    from bench.tier import swarms

    out = out or Path("groupd-swarm") / f"compared-{run_names.stamp()}"
    if out.exists():
        typer.echo(f"groupd: --out {out}: it is there already; a new directory is needed", err=True)
        raise typer.Exit(2)
    wanted = swarms.Wanted(seed, out, machine(), quick, kafka_home)
    with console.status("begins") as status:
        found = swarms.run(wanted, progress(status.update))
    compare.show(console, found)
    console.print(f"written into {out}: {swarms.JSON}, {swarms.MARKDOWN}, and a report of each swarm")


@app.command("memory", epilog="[bold]Examples[/bold]\n\n  groupd bench memory")
def memory_command() -> None:
    """Measure the memory of an idle member of either protocol, on a follower and on the leader."""
    from bench.replica import member_memory

    member_memory.main()


@app.command("offsets", epilog="[bold]Examples[/bold]\n\n  groupd bench offsets")
def offsets_command() -> None:
    """Measure what a commit and a fetch of offsets cost a replica, and the memory of an offset."""
    from bench.replica import offsets

    offsets.main()


@app.command("gc", epilog="[bold]Examples[/bold]\n\n  groupd bench gc")
def gc_command() -> None:
    """Measure the garbage collector's longest pause in a replica with 200,000 members."""
    from bench.replica import gc_pause

    gc_pause.main()


@app.command(
    "long-work",
    epilog="[bold]Examples[/bold]\n\n  groupd bench long-work\n\n"
    "  groupd bench long-work --tier --offsets 1000000",
)
def long_work_command(
    tier: Annotated[bool, typer.Option(help="Work on a tier, beside a group's heartbeats.")] = False,
    groups: Annotated[int, typer.Option(help="Groups to list, with --tier.", min=1)] = 100_000,
    offsets: Annotated[
        int, typer.Option(help="Offsets to fetch and delete, with --tier.", min=1_000)
    ] = 200_000,
    members: Annotated[int, typer.Option(help="Members to describe, with --tier.", min=1)] = 5_000,
) -> None:
    """Measure the longest pieces of work of one group, in which no other group's heartbeat is answered."""
    from bench.replica import long_work, long_work_probe

    if tier:
        plan = long_work_probe.Plan(groups, offsets, members)
        long_work_probe.show(console, long_work_probe.measure(plan, _say(False)))
        return
    long_work.main()


@app.command(
    "million",
    epilog="[bold]Examples[/bold]\n\n  groupd bench million\n\n  groupd bench million --members 100000",
)
def million_command(
    members: Annotated[int, typer.Option(help="Idle members of all groups together.", min=1)] = 1_000_000,
    group_size: Annotated[int, typer.Option(help="Members of each group.", min=1)] = 5,
    partitions: Annotated[int, typer.Option(help="Offsets partitions, each with its process.", min=1)] = 2,
    seconds: Annotated[float, typer.Option(help="Seconds of heartbeats, once all are there.", min=1)] = 240.0,
    budget: Annotated[int, typer.Option(help="Heartbeats per second of each partition.", min=1)] = 5_000,
) -> None:
    """Serve a million idle KIP-848 members over few connections, each at its interval. Takes a while."""
    from bench.tier import million

    plan = million.Plan(members, group_size, partitions, seconds, budget)
    with console.status("begins") as status:
        figures = million.measure(plan, progress(status.update))
    million.show(console, figures, machine())


@app.command(
    "history",
    epilog="[bold]Examples[/bold]\n\n  groupd bench history\n\n"
    "  groupd bench history --per-second 5000 --seconds 60 --json",
)
def history_command(
    per_second: Annotated[int, typer.Option(help="Events per second of one leader.", min=1_000)] = 50_000,
    seconds: Annotated[float, typer.Option(help="Seconds of each run.", min=1)] = 20.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Measure what writing history costs a leader: CPU of an event, and the longest pause of its loop."""
    from bench.history import writing as history_writing

    plan = history_writing.Plan(per_second, seconds)
    measured = history_writing.measure(plan, _say(as_json))
    if as_json:
        typer.echo(json.dumps({"machine": machine(), **history_writing.as_json(measured)}, indent=2))
    else:
        history_writing.show(console, measured, machine())


def _say(as_json: bool) -> Callable[[str], None]:
    return (lambda _: None) if as_json else (lambda what: console.print(f"[dim]·[/dim] {what}"))
