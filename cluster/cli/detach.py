"""`groupd detach`: the groups of the cluster in front of which the tier stands go back to its brokers."""

from __future__ import annotations

import typer

from cluster.cli.attach import follow, take_over_of
from cluster.cli.common import DATA_DIR_DEFAULT, DataDirOption, JsonOption, errors, examples, leave
from cluster.cli.reach import reach
from cluster.cli.replicas import WaitOption
from cluster.tier_file import TierError


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
    from actors.ground.upstream_goal import DETACHED, LEAVING

    with errors():
        take_over = take_over_of(reach(data_dir))
        if take_over.state().goal == DETACHED:
            raise TierError("the brokers coordinate all groups already: there is nothing to give back")
        take_over.want(LEAVING)
        follow(take_over, data_dir, wait=wait, as_json=as_json)
    leave()
