"""How a command reaches the tier that it is for: by its data directory, or over the port of any node.

By the directory it asks the tier's Ray or its machines. If those do not answer, it asks the tier itself over
its clients' port, as `--bootstrap` does from any machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from actors import runtime
from actors.ground.calls import ActorCallError
from actors.ground.spec import TierSpec
from cluster import administrator, lifecycle, tier_file
from cluster.group_leaders import GroupLeaders
from cluster.replica_changes import present
from cluster.tier_file import DATA_DIR_DEFAULT, Running, TierError, TierFile

NodeOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap", help="host:port of any node, to ask the tier without Ray; default: --data-dir."
    ),
]


class Reached(NamedTuple):
    """A tier that can be asked by `actors.runtime` from now on."""

    tier: TierFile
    """The tier with its replicas where they should be now."""
    spec: TierSpec
    """Enough of its spec to name its actors."""
    data_dir: Path
    """The directory that hints name."""
    machines: Mapping[str, bool]
    """Each machine of a tier whose machines have agents, and whether its agent answers."""

    @property
    def leaders(self) -> GroupLeaders:
        """Return who leads the tier's Raft groups."""
        return GroupLeaders(self.spec)


def reach(data_dir: Path, bootstrap: str | None = None, command_config: Path | None = None) -> Reached:
    """Reach the tier whose node `bootstrap` (or the client properties of `command_config`) names, else the
    one that runs in `data_dir`. Raises TierError."""
    from cluster.groups.properties import names_bootstrap

    if bootstrap is not None or names_bootstrap(command_config):
        return _over_the_port(bootstrap, command_config, DATA_DIR_DEFAULT)
    tier, running = tier_file.require_running(data_dir)
    try:
        lifecycle.attach_to(data_dir, tier, running)
        machines = _answering(running)
    except TierError as error:
        return _instead(error, data_dir, running, command_config)
    tier = present(tier)
    return Reached(tier, lifecycle.spec_of(tier, data_dir, running), data_dir, machines)


def _answering(running: Running) -> dict[str, bool]:
    """Return the machines, and whether each answers; {} if there is one Ray. Raises TierError if none can be
    asked."""
    known = runtime.machines()
    try:
        return {} if known is None else known.list_machines()
    except (ActorCallError, TimeoutError) as error:
        machines = ", ".join(running.machines)
        raise TierError(f"none of the machines {machines} answers: {error or 'no answer'}") from None


def _instead(why: TierError, data_dir: Path, running: Running, command_config: Path | None) -> Reached:
    """Reach a tier over its port because Ray does not answer, and say so in one line."""
    try:
        reached = _over_the_port(
            running.bootstrap, command_config or administrator.properties_of(data_dir), data_dir
        )
    except TierError as error:
        raise TierError(f"{why}; and over its port: {error}") from None
    typer.echo(f"groupd: {why}; asked over its port instead ({running.bootstrap})", err=True)
    return reached


def _over_the_port(bootstrap: str | None, command_config: Path | None, data_dir: Path) -> Reached:
    from cluster.asking.port import Port, tier_of  # kio takes a moment to load
    from cluster.groups.properties import properties

    port = Port(properties(bootstrap, command_config))
    said = port.about()
    runtime.use(port)
    tier = tier_of(said)
    return Reached(tier, lifecycle.spec_of(tier, data_dir, None), data_dir, said["machines"])
