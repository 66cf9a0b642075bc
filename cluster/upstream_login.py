"""How a tier logs in to the Kafka cluster that it stands in front of: client properties that are given once,
and copied into the data directory, where nobody but their owner may read them.

Actors are told with their spec; `tier.json`, settings and logs never say more than where the files are.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from actors.ground.login import OPEN, Login
from actors.ground.spec import UpstreamSpec
from cluster import owner_file

BROKERS_CONFIG: Final = "upstream.config"
CONTROLLERS_CONFIG: Final = "upstream.controllers.config"
_KEPT: Final = {
    BROKERS_CONFIG: "upstream.properties",
    CONTROLLERS_CONFIG: "upstream-controllers.properties",
}
"""Setting -> the copy in the data directory."""


def kept_files(data_dir: Path) -> tuple[Path | None, Path | None]:
    """Return the files of a tier's logins to brokers and to controllers; None: nothing is said of that."""
    brokers = copy_of(data_dir, BROKERS_CONFIG)
    return brokers, copy_of(data_dir, CONTROLLERS_CONFIG) or brokers


def keep(data_dir: Path, upstream: UpstreamSpec) -> None:
    """Keep a tier's logins for its next starts, and for the commands on this machine."""
    brokers, controllers = upstream.brokers_login, upstream.controllers_login
    _write(data_dir, BROKERS_CONFIG, None if brokers == OPEN else brokers)
    _write(data_dir, CONTROLLERS_CONFIG, None if controllers == brokers else controllers)


def _write(data_dir: Path, name: str, login: Login | None) -> None:
    path = data_dir / _KEPT[name]
    if login is not None:
        owner_file.write(path, "".join(f"{line}\n" for line in _lines(login)).encode())
    else:
        path.unlink(missing_ok=True)


def copy_of(data_dir: Path, name: str) -> Path | None:
    """Return the copy of what a setting named; None: there is none."""
    path = data_dir / _KEPT[name]
    return path if path.exists() else None


def _lines(login: Login) -> Iterator[str]:
    """Yield the lines of a properties file that says how to connect, secrets included."""
    values = {
        "security.protocol": login.protocol,
        "sasl.mechanism": login.mechanism,
        "sasl.username": login.user,
        "sasl.password": login.password,
        "ssl.ca.location": login.ca,
        "ssl.certificate.location": login.certificate,
        "ssl.key.location": login.key,
        "ssl.key.password": login.key_password,
        "ssl.endpoint.identification.algorithm": "https" if login.is_host_checked else "none",
        "enable.ssl.certificate.verification": "true" if login.is_verified else "false",
    }
    for name, value in values.items():
        if value:
            yield f"{name}={value}"
