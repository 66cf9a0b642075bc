"""Partitions are split on three machines that lose their power meanwhile: the split ends as if nothing had
happened, or was never begun, and nothing acknowledged is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bench.chaos.targets.machine_site import MachineSite
from cluster import tier_file
from cluster.partition_split import PartitionSplit, SplitState
from tests.machines.long_story import (
    BACK_S,
    QUIET_S,
    LongStory,
    check,
    check_whole_start,
    wait_until_even,
    wait_until_split_is_over,
)
from tests.machines.operator import copies, groupd, let_pass, status
from tests.polling import until

pytestmark = [pytest.mark.machines, pytest.mark.timeout(900)]

ALL = {1, 2, 3}


def are_made(site: MachineSite, state: SplitState) -> bool:
    """Return whether a replica of a new partition has begun to write."""
    new = range(state.before, state.partitions)
    below = [machine.disk / site.data_dir.name for machine in site.machines.all]
    return any(list(path.glob(f"node-*/partition-{number}-*")) for path in below for number in new)


def have_moved(site: MachineSite, state: SplitState) -> bool:
    """Return whether groups of a partition have moved."""
    return bool(state.undropped) and len(state.unmoved) < state.before


Moment = Callable[[MachineSite, SplitState], bool]


def begin(site: MachineSite, moment: Moment) -> None:
    """Begin a split, and wait until it has come that far."""
    tier, _ = tier_file.require_running(site.data_dir)
    split = PartitionSplit(tier, site.data_dir)
    groupd(site, "partitions", "split", "--no-wait")
    until(lambda: moment(site, state := split.state()) or not state.undropped, "the split goes on", BACK_S)
    assert split.state().undropped, "the split was over before anything could happen to it"


@pytest.mark.parametrize("moment", [are_made, have_moved])
def test_all_machines_lose_their_power_in_the_middle_of_a_split(
    site: MachineSite, tmp_path: Path, moment: Moment
) -> None:
    wait_until_even(site, ALL)
    before = len(status(site)["partitions"])
    with LongStory(site, site.bootstrap, tmp_path) as story:
        story.begin()
        with story.step("all machines lose their power"), story.fault("machines-power", "all machines"):
            begin(site, moment)
            site.machines.lose_all_power()
            wait_until_split(site, before)
        with story.step("nothing happens"):
            let_pass(QUIET_S)
        told = story.told()
    check(told, {"all machines lose their power"})


def test_the_machine_of_a_parents_leader_is_lost_in_the_middle_of_a_split(
    site: MachineSite, tmp_path: Path
) -> None:
    """The split ends without it, and it is whole when it is back."""
    wait_until_even(site, ALL)
    found = status(site)["partitions"]
    leader = site.machines.all[found[0]["leader_node"] - 1]
    with LongStory(site, site.bootstrap, tmp_path) as story:
        story.begin()
        with (
            story.step("a leader's machine is lost"),
            story.fault("machine-power", f"machine {leader.number}"),
        ):
            begin(site, are_made)
            leader.lose_power()
            wait_until_split_is_over(site)
        with story.step("the machine is back"):
            site.machines.boot_again(leader)
            wait_until_split(site, len(found))
        with story.step("nothing happens"):
            let_pass(QUIET_S)
        told = story.told()
    check(told, {"a leader's machine is lost"})


def test_a_whole_start_knows_of_all_splits_before_it(site: MachineSite) -> None:
    """Nobody has written them down in the directory in which it is given."""
    check_whole_start(site, ALL, len(status(site)["partitions"]))


def wait_until_split(site: MachineSite, before: int) -> None:
    """Wait until the split is over, and the tier is whole with twice as many partitions."""
    wait_until_split_is_over(site)
    wait_until_even(site, ALL)
    assert len(status(site)["partitions"]) == 2 * before
    assert copies(site) == {3}
