"""What a server says it can do: A25, W16."""

from __future__ import annotations

from tests.oracle.play import Play
from tests.oracle.registry import transcript

GROUP_APIS = {8, 9, 10, 11, 12, 13, 14, 15, 16, 42, 47, 68, 69}


@transcript(rows=("A25", "W16"), cases={f"v{version}": version for version in (3, 4)})
def group_version_is_finalized(play: Play, version: int) -> None:
    """Clients take the feature for leave to use the consumer protocol."""
    a = play.connect()
    said = a.quietly("api_versions", version, client_software_name="a", client_software_version="1")
    features = {feature.name: feature.max_version_level for feature in said.finalized_features}
    play.note("group.version", features.get("group.version"))


@transcript(rows=("W16", "A12"), cases={f"v{version}": version for version in range(5)})
def versions_of_the_group_apis(play: Play, version: int) -> None:
    """All that Kafka 4.3.1 has, no more."""
    a = play.connect()
    said = a.quietly("api_versions", version, client_software_name="a", client_software_version="1")
    ranges = {api.api_key: (api.min_version, api.max_version) for api in said.api_keys}
    play.note("ranges", {str(key): list(ranges.get(key, ())) for key in sorted(GROUP_APIS)})
