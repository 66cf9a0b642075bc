"""`groupd detach`: the groups of the cluster in front of which the tier stands go back to its brokers."""

from __future__ import annotations

from typing import Final

import typer

from cluster.cli.attach import change
from cluster.cli.common import DATA_DIR_DEFAULT, DataDirOption, JsonOption, examples
from cluster.cli.replicas import WaitOption

NOTHING_HERE: Final = "the brokers coordinate all groups already: there is nothing to give back"


def register(app: typer.Typer) -> None:
    app.command(epilog=examples("groupd detach", "groupd detach --no-wait", "groupd attach resume"))(detach)


def detach(
    wait: WaitOption = True, data_dir: DataDirOption = DATA_DIR_DEFAULT, as_json: JsonOption = False
) -> None:
    """Give all groups back to the brokers of the Kafka cluster, while they are served.

    It moves one offsets partition after the other: brokers fetch its log from the tier, and lead when they
    have all of it. Members go on with the generation or epoch that they have. In the end the tier's nodes are
    no brokers of the cluster any more. `groupd attach resume` takes it back, `groupd attach status` shows how
    far it is.
    """
    from actors.ground.upstream_goal import LEAVING

    change(LEAVING, NOTHING_HERE, data_dir, wait=wait, as_json=as_json)
