"""`groupd groups`: what kafka-consumer-groups does, for groups of this tier or of any Kafka (B10)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cluster.cli import group_configs, group_reset
from cluster.cli.common import (
    DATA_DIR_DEFAULT,
    BootstrapOption,
    DataDirOption,
    JsonOption,
    errors,
    examples,
    fail,
    print_json,
)
from cluster.cli.group_tables import plain, remark, show_members, show_offsets, show_state
from cluster.cli.kafka import CommandConfigOption, print_table, with_kafka
from cluster.tier_file import TierError

if TYPE_CHECKING:
    from cluster.groups.connection import Kafka
    from cluster.groups.describe import Group, OffsetRow
    from cluster.groups.requests import ListedGroup

GROUP_STATES = (
    "Empty",
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
    "Assigning",
    "Reconciling",
)
GROUP_TYPES = ("classic", "consumer", "push", "share", "streams")
LEAVE_REASON = "removed by groupd groups remove-members"

commands = typer.Typer(
    no_args_is_help=True,
    help="List, describe, reset and delete groups, and their members, offsets and configs.",
    rich_markup_mode="rich",
    epilog=examples("groupd groups list", "groupd groups describe orders --members --verbose"),
)
GroupsArgument = Annotated[list[str] | None, typer.Argument(help="The group ids.", metavar="GROUP...")]
AllGroupsOption = Annotated[bool, typer.Option("--all-groups", help="Describe every group.")]


def register(app: typer.Typer) -> None:
    group_reset.register(commands)
    group_configs.register(commands)
    app.add_typer(commands, name="groups")


@commands.command(
    "list", epilog=examples("groupd groups list", "groupd groups list --state Stable --bootstrap kafka:9092")
)
def list_(
    state: Annotated[str, typer.Option(help="Only groups in these states.", metavar="STATE,...")] = "",
    type_: Annotated[
        str,
        typer.Option("--type", help="Only these types: classic, consumer, push.", metavar="TYPE,..."),
    ] = "",
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    bootstrap: BootstrapOption = None,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List groups with type, protocol and state."""

    async def work(kafka: Kafka) -> list[ListedGroup]:
        from cluster.groups.requests import list_groups

        return await list_groups(kafka, states, types)

    with errors():
        states = _words("--state", state, GROUP_STATES)
        types = _words("--type", type_, GROUP_TYPES)
        groups = with_kafka(bootstrap, command_config, data_dir, work)
    if as_json:
        print_json([group._asdict() for group in groups])
    elif groups:
        print_table(("GROUP", "TYPE", "PROTOCOL", "STATE"), groups)
    else:
        typer.echo("There are no groups.")


@commands.command(
    epilog=examples(
        "groupd groups describe billing",
        "groupd groups describe billing orders --members --verbose",
        "groupd groups describe --all-groups --state --bootstrap kafka:9092",
    )
)
def describe(
    groups: GroupsArgument = None,
    all_groups: AllGroupsOption = False,
    offsets: Annotated[bool, typer.Option("--offsets", help="Show offsets and lag; the default.")] = False,
    members: Annotated[bool, typer.Option("--members", help="Show members and what they own.")] = False,
    state: Annotated[bool, typer.Option("--state", help="Show state, coordinator and assignor.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show epochs and assignments, too.")] = False,
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    bootstrap: BootstrapOption = None,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a group's offsets with lag, its members and what they own, or its state."""
    with_offsets = offsets or as_json or not (members or state)

    async def work(kafka: Kafka) -> list[tuple[Group, list[OffsetRow] | None]]:
        from cluster.groups.describe import describe_group, offset_rows, typed

        named = await named_groups(kafka, groups, all_groups=all_groups)
        found = await typed(kafka, [await describe_group(kafka, group_id) for group_id in named])
        return [(each, await offset_rows(kafka, each) if with_offsets else None) for each in found]

    with errors():
        described = with_kafka(bootstrap, command_config, data_dir, work)
    if as_json:
        shown = [plain(group, rows) for group, rows in described]
        print_json(shown[0] if len(shown) == 1 and not all_groups else shown)
        return
    for group, rows in described:
        _show(group, rows, members=members, state=state, verbose=verbose)


def _show(group: Group, rows: list[OffsetRow] | None, *, members: bool, state: bool, verbose: bool) -> None:
    said = remark(group)
    if said is not None:
        typer.echo(said, err=True)
    if state:
        show_state(group, verbose=verbose)
    if members and group.members:
        show_members(group, verbose=verbose)
    if rows:
        show_offsets(group, rows, verbose=verbose)
    elif rows is not None and not group.members:
        typer.echo(f"Group {group.group} has committed nothing.", err=True)


@commands.command(epilog=examples("groupd groups delete billing", "groupd groups delete --all-groups"))
def delete(
    groups: GroupsArgument = None,
    all_groups: AllGroupsOption = False,
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    bootstrap: BootstrapOption = None,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete groups without members, with their committed offsets."""

    async def work(kafka: Kafka) -> dict[str, TierError | None]:
        from cluster.groups.requests import delete_groups

        return await delete_groups(kafka, await named_groups(kafka, groups, all_groups=all_groups))

    with errors():
        outcome = with_kafka(bootstrap, command_config, data_dir, work)
    _finish("deleted", outcome, as_json=as_json)


@commands.command(
    "delete-offsets",
    epilog=examples("groupd groups delete-offsets billing --topic orders --topic payments:0,1"),
)
def delete_offsets(
    group: Annotated[str, typer.Argument(help="The group id.")],
    topic: Annotated[list[str], typer.Option(help="A topic, or partitions of it: TOPIC:0,1,2.")],
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    bootstrap: BootstrapOption = None,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Forget a group's committed offsets of topics that its members are not subscribed to."""

    async def work(kafka: Kafka) -> dict[Any, TierError | None]:
        from cluster.groups import requests
        from cluster.groups.reset import places_of

        return await requests.delete_offsets(kafka, group, await places_of(kafka, topic))

    with errors():
        outcome = with_kafka(bootstrap, command_config, data_dir, work)
    _finish("deleted", {str(place): error for place, error in outcome.items()}, as_json=as_json)


@commands.command(
    "remove-members",
    epilog=examples(
        "groupd groups remove-members billing --all",
        "groupd groups remove-members billing --member consumer-1-0b5f --instance node-7",
    ),
)
def remove_members(
    group: Annotated[str, typer.Argument(help="The group id.")],
    member: Annotated[list[str] | None, typer.Option(help="The id of a member to remove.")] = None,
    instance: Annotated[
        list[str] | None, typer.Option(help="The group.instance.id of a member to remove.")
    ] = None,
    everybody: Annotated[bool, typer.Option("--all", help="Remove all members.")] = False,
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    bootstrap: BootstrapOption = None,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Have members leave: for consumers that are gone, before their session ends. Living ones join again."""

    async def work(kafka: Kafka) -> dict[str, TierError | None]:
        from cluster.groups import requests
        from cluster.groups.describe import describe_group

        if not everybody:
            named: list[tuple[str, str | None]] = [(member_id, None) for member_id in member or ()]
            named += [("", instance_id) for instance_id in instance or ()]
        else:
            present = (await describe_group(kafka, group)).members
            named = [("" if each.instance_id else each.member_id, each.instance_id) for each in present]
        return await requests.remove_members(kafka, group, named, LEAVE_REASON)

    with errors():
        if everybody == bool(member or instance):
            raise TierError("name members with --member or --instance, or take --all of them")
        outcome = with_kafka(bootstrap, command_config, data_dir, work)
    _finish("removed", outcome, as_json=as_json)


@commands.command("validate-regex", epilog=examples("groupd groups validate-regex 'orders-.*'"))
def validate_regex(
    regex: Annotated[str, typer.Argument(help="A regular expression in the syntax of RE2.")],
    as_json: JsonOption = False,
) -> None:
    """Say whether a consumer may subscribe to a regular expression.

    Exit code 1 if not. The syntax is RE2's (KIP-848).
    """
    from actors.coordinator.ground.regex import compiled
    from actors.protocol.errors import GroupError

    problem = None
    try:
        compiled(regex)
    except GroupError as error:
        problem = error.message or error.error_code.name
    if as_json:
        print_json({"regex": regex, "valid": problem is None, "problem": problem})
        raise typer.Exit(0 if problem is None else 1)
    if problem is not None:
        fail(problem)
    typer.echo(f"The regular expression `{regex}` is valid.")


async def named_groups(kafka: Kafka, groups: list[str] | None, *, all_groups: bool) -> list[str]:
    """Return the groups that a command is about. Raises TierError."""
    from cluster.groups.requests import list_groups

    if all_groups == bool(groups):
        raise TierError("name the groups, or take --all-groups")
    if groups:
        return list(dict.fromkeys(groups))
    listed = await list_groups(kafka)
    return [group.group for group in listed if group.protocol in ("", "consumer")]


def _words(option: str, text: str, allowed: tuple[str, ...]) -> list[str]:
    """Return the words of a list as Kafka spells them. Raises TierError."""
    spelled = {word.lower(): word for word in allowed}
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        if word.lower() not in spelled:
            raise TierError(f"{option} {word}: one of {', '.join(allowed)} is allowed")
    return [spelled[word.lower()] for word in words]


def _finish(done: str, outcome: Mapping[str, TierError | None], *, as_json: bool) -> None:
    """Tell what became of each group; exit with code 1 if anything was refused."""
    fine = [name for name, error in outcome.items() if error is None]
    errors_ = {name: str(error) for name, error in outcome.items() if error is not None}
    if as_json:
        print_json({done: fine, "refused": errors_})
        raise typer.Exit(1 if errors_ else 0)
    if fine:
        typer.echo(f"{done.capitalize()}: {', '.join(fine)}.")
    if errors_:
        fail("; ".join(errors_.values()))
    if not fine:
        typer.echo("There was nothing to do.")
