"""How a tier is to log in to the cluster that it stands in front of, as its settings and its data directory
say."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from actors.ground.spec import UpstreamSpec
from actors.upstream.controllers import listed
from cluster.groups.properties import ClientProperties, properties
from cluster.settings import Settings
from cluster.upstream_login import BROKERS_CONFIG, CONTROLLERS_CONFIG, copy_of

_ANYWHERE: Final = "none:0"
"""What stands for addresses, which a tier is told apart from its logins."""


class Logins(NamedTuple):
    """Client properties for the two kinds of servers."""

    brokers: ClientProperties
    controllers: ClientProperties

    def at(self, upstream: UpstreamSpec) -> Logins:
        """Return the properties that name the cluster's servers, too."""
        servers = listed(upstream.brokers), listed(upstream.controllers)
        return Logins(
            *(each.model_copy(update={"bootstrap": named}) for each, named in zip(self, servers, strict=True))
        )

    def of(self, upstream: UpstreamSpec) -> UpstreamSpec:
        """Return what is told of a cluster, with these logins."""
        return upstream._replace(
            brokers_login=self.brokers.login(), controllers_login=self.controllers.login()
        )


def logins(settings: Settings, data_dir: Path) -> Logins:
    """Return how the tier is to log in: as it is told now, or was told before. Controllers are logged in to
    as brokers are, unless they have properties of their own. Raises TierError."""
    brokers, controllers = (
        Path(settings[name]) if settings[name] else copy_of(data_dir, name)
        for name in (BROKERS_CONFIG, CONTROLLERS_CONFIG)
    )
    controllers = controllers or brokers
    return Logins(properties(_ANYWHERE, brokers), properties(_ANYWHERE, controllers))
