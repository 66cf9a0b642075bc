"""Every kind of fault on a real tier under load: it is felt, it ends, the tier is whole, nothing is lost."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import psutil
import pytest

from actors.ground.spec import CONTROLLER_GROUP
from actors.network.wire import request_frame
from bench.chaos.faults import KINDS
from bench.chaos.faults.bursts import KILLS
from bench.chaos.faults.disks import SLOW_SYNC_MS
from bench.chaos.faults.network import CLIENT_DELAY_S, SLOW_MS
from bench.chaos.targets import sites
from bench.chaos.targets.site import Site
from tests.chaos.load import Load, addresses
from tests.chaos.scene import Scene, suffer

pytestmark = [pytest.mark.chaos, pytest.mark.ray, pytest.mark.timeout(240)]

SILENCE_S = 1.0
HERE = [name for name, kind in KINDS.items() if not kind.needs & {"ray-nodes", "machines", "upstream"}]
"""What a tier of one machine can be given; what needs more is tried beside this and in `tests/machines`."""
MS = 1_000


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with sites.throw_away("--partitions", "2", small_disk=True) as tier:
        yield tier


@pytest.fixture(scope="module")
def load(site: Site) -> Iterator[Load]:
    with Load(site) as running:
        yield running


def replaced(scene: Scene) -> None:
    """Other processes are in the place of those that were hit."""

    def are_others() -> bool:
        now = scene.now()
        return all(actor.name in now and now[actor.name].pid != actor.pid for actor in scene.hit)

    scene.until(are_others, "the actors are started anew")


def ended(scene: Scene) -> None:
    """SIGTERM alone may not be enough: undoing it is."""
    scene.injury.undo()
    replaced(scene)


def silent(scene: Scene) -> None:
    processes = [psutil.Process(actor.pid) for actor in scene.hit]
    scene.until(lambda: all(each.status() == psutil.STATUS_STOPPED for each in processes), "they stand still")
    assert not {actor.name for actor in scene.hit} & scene.now().keys()


def led_by_another(scene: Scene) -> None:
    [old] = scene.hit
    group = old.group
    assert group is not None

    def is_led() -> bool:
        leader = scene.site.leader(group)
        return leader is not None and leader.name != old.name

    scene.until(is_led, "another replica leads")


def not_led(scene: Scene) -> None:
    group = scene.injury.target.partition(",")[0]
    scene.until(lambda: scene.site.leader(group) is None, "nobody leads")


def node_leads_nothing(scene: Scene) -> None:
    node = int(scene.injury.target.removeprefix("node "))
    scene.until(
        lambda: not any(actor.leads for actor in scene.site.actors() if actor.node_id == node),
        "leaders are on other nodes",
    )


def frozen_gcs(scene: Scene) -> None:
    scene.until(lambda: scene.site.gcs().status() == psutil.STATUS_STOPPED, "it stands still")


def told(words: str) -> Callable[[Scene], None]:
    """Check that the log of a replica has these words."""

    def check(scene: Scene) -> None:
        logs = [path.read_text() for path in (scene.site.data_dir / "logs").glob("partition-*.log")]
        assert any(words in log for log in logs)

    return check


def slower(at_least_s: float) -> Callable[[Scene], None]:
    return lambda scene: scene.until(lambda: scene.load.pace_s(0) >= at_least_s, "commits take longer")


def complains(words: str) -> Callable[[Scene], None]:
    return lambda scene: scene.until(lambda: words in scene.site.complaints(), f"somebody says {words!r}")


def killed_in_turn(scene: Scene) -> None:
    """All kills may be done before anybody is back: who was hit is not there, or is another process."""
    assert scene.injury.undo() == KILLS
    now = scene.now()
    assert any(name not in now or now[name].pid != actor.pid for name, actor in scene.before.items())


def connections_ended(scene: Scene) -> None:
    count, _, _ = scene.injury.detail.partition(" ")
    assert int(count) > 0


def swallowed(scene: Scene) -> None:
    """The node's port takes a request and says nothing."""
    node = int(scene.injury.target.rpartition(" ")[2])
    with socket.create_connection(addresses(scene.site)[node - 1], SILENCE_S) as client:
        client.sendall(request_frame("api_versions", 2, 1, "test", {}))
        with pytest.raises(TimeoutError):
            client.recv(1)


def stalled(scene: Scene) -> None:
    def is_still() -> bool:
        before = scene.load.acknowledged()
        signal.sigtimedwait([], SILENCE_S)
        return scene.load.acknowledged() == before

    scene.until(is_still, "no commit is acknowledged")


def damaged(scene: Scene) -> None:
    assert scene.injury.detail
    replaced(scene)


def moved(scene: Scene) -> None:
    leaders = {name for name, actor in scene.before.items() if actor.leads}
    scene.until(lambda: {a.name for a in scene.site.actors() if a.leads} != leaders, "leaders change")


def restarted(scene: Scene) -> None:
    scene.injury.undo()
    now = scene.now()
    assert all(now[name].pid != actor.pid for name, actor in scene.before.items())


def leads_elsewhen(scene: Scene) -> None:
    [old] = scene.hit
    now = scene.now()[old.name]
    assert now.pid != old.pid
    log = scene.site.data_dir / "logs" / f"{old.name}.log"
    assert "ahead_ms=" in log.read_text()


EFFECTS: dict[str, Callable[[Scene], None]] = {
    **{name: replaced for name in HERE if name.startswith(("kill-", "ray-kill"))},
    **{name: ended for name in HERE if name.startswith("term-")},
    **{name: silent for name in HERE if name.startswith("freeze-")},
    **{name: killed_in_turn for name in HERE if name.endswith("-in-turn")},
    "freeze-gcs": frozen_gcs,
    "links-cut-leader": led_by_another,
    "links-cut-follower": told("loss=1"),
    "links-mute-leader": led_by_another,
    "links-deaf-leader": led_by_another,
    "links-cut-node": node_leads_nothing,
    "links-cut-all": not_led,
    "links-lossy": told("loss=0.2"),
    "links-slow": slower(2 * SLOW_MS / MS),
    "clients-reset": connections_ended,
    "clients-slow": slower(2 * CLIENT_DELAY_S),
    "clients-black-hole": swallowed,
    "clients-lost-answers": stalled,
    "disk-full": complains("No space left on device (injected)"),
    "disk-full-all": complains("No space left"),
    "disk-slow": told("delay_ms=150"),
    "disk-slow-all": slower(SLOW_SYNC_MS / MS),
    "disk-sync-fails": complains("Input/output error (injected)"),
    "journal-damaged": damaged,
    "leaders-move": moved,
    "rolling-restart": restarted,
    "clock-jump": leads_elsewhen,
}


@pytest.mark.parametrize("name", EFFECTS)
def test_a_fault_is_felt_and_healed(name: str, site: Site, load: Load) -> None:
    suffer(site, load, name, EFFECTS[name])


def test_every_kind_is_tried() -> None:
    assert EFFECTS.keys() == set(HERE)


def test_a_tier_that_runs_already_is_hit_and_left_running(site: Site, load: Load) -> None:
    """Only the tier's data directory is known: a fault that needs more says what is missing."""
    own = site.data_dir
    site.close()
    with sites.running(own) as found:
        assert found.has == {"replicas"}
        before = found.leader(CONTROLLER_GROUP)
        assert before is not None
        KINDS["kill-controller"].begin(found, Random(1), 0.0)
        found.wait_until_whole()
        assert Path(own).is_dir()
        load.progress()
