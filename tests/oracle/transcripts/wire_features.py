"""What a server says it can do, and whether a client has reached whom it meant to: A25, W16, W18."""

from __future__ import annotations

from typing import Any

from tests.oracle.play import Client, Play
from tests.oracle.registry import transcript

GROUP_APIS = {8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 28, 42, 47, 68, 69}
RIGHT, WRONG = "right", "wrong"
PLACES = {
    "nothing": (None, None),
    "both right": (RIGHT, RIGHT),
    "another cluster": (WRONG, RIGHT),
    "another node": (RIGHT, WRONG),
    "both wrong": (WRONG, WRONG),
    "a cluster without a name": ("", RIGHT),
    "only a cluster": (RIGHT, None),
    "only a node": (None, RIGHT),
}


@transcript(rows=("A25", "W16"), cases={f"v{version}": version for version in (3, 4, 5)})
def group_version_is_finalized(play: Play, version: int) -> None:
    """Clients take the feature for leave to use the consumer protocol."""
    a = play.connect()
    said = a.quietly("api_versions", version, client_software_name="a", client_software_version="1")
    features = {feature.name: feature.max_version_level for feature in said.finalized_features}
    play.note("group.version", features.get("group.version"))


@transcript(rows=("W16", "A12"), cases={f"v{version}": version for version in range(6)})
def versions_of_the_group_apis(play: Play, version: int) -> None:
    """All that Kafka has, no more."""
    a = play.connect()
    said = a.quietly("api_versions", version, client_software_name="a", client_software_version="1")
    ranges = {api.api_key: (api.min_version, api.max_version) for api in said.api_keys}
    play.note("ranges", {str(key): list(ranges.get(key, ())) for key in sorted(GROUP_APIS)})


def _asked(client: Client, cluster: str | None, node: str | None, **software: str) -> list[Any]:
    """What is answered to a client that takes the other end for this: error, whether there are APIs and
    features."""
    there = client.quietly("describe_cluster", 0)
    wanted = {
        "cluster_id": there.cluster_id if cluster == RIGHT else cluster,
        "node_id": {None: -1, RIGHT: there.brokers[0].broker_id, WRONG: 4_711}[node],
    }
    software = {"client_software_name": "a", "client_software_version": "1"} | software
    said = client.quietly("api_versions", 5, **software, **wanted)
    features = [len(said.supported_features) > 0, len(said.finalized_features) > 0]
    return [str(said.error_code), len(said.api_keys) > 0, *features]


@transcript(rows=("W18",), cases=PLACES)
def whom_a_client_takes_the_node_for(play: Play, place: tuple[str | None, str | None]) -> None:
    """Another one is REBOOTSTRAP_REQUIRED, half of it INVALID_REQUEST, and nothing else is told; the
    connection goes on."""
    a = play.connect()
    play.note("answer", _asked(a, *place))
    a.ask("heartbeat", 4, group_id=play.group(), generation_id=1, member_id="m")
    play.note("again", _asked(a, *place))


@transcript(rows=("W18", "W13"))
def a_software_name_that_cannot_be_goes_before_the_place(play: Play) -> None:
    play.note("answer", _asked(play.connect(), WRONG, WRONG, client_software_name="a b"))


@transcript(rows=("W18", "W10"), profile="security")
def before_a_login_nobody_is_told_that_the_place_is_wrong(play: Play) -> None:
    """Whoever has logged in is."""
    stranger = play.connect("stranger", user=None)
    wrong = {"cluster_id": "wrong", "node_id": 4_711}
    said = stranger.quietly("api_versions", 5, client_software_name="a", client_software_version="1", **wrong)
    play.note("stranger", str(said.error_code))
    half = play.connect("half", user=None)
    said = half.quietly("api_versions", 5, client_software_name="a", client_software_version="1", node_id=1)
    play.note("half", str(said.error_code))
    play.note("known", _asked(play.connect(), WRONG, WRONG))
