"""The user that a tier with authentication begins with, and the client properties that let the CLI in.

The password is a secret of the data directory. While the tier wants clients to authenticate, or encrypts what
they say, `admin.properties` lies beside it, for the commands on this machine and for Kafka's own tools.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from actors.ground.spec import PLAINTEXT, BrokerSettings
from actors.security.scram import SCRAM_SHA_512
from cluster import owner_file, tier_file
from cluster.settings import Settings

SECRET_NAME: Final = "admin-secret"  # noqa: S105
PROPERTIES_NAME: Final = "admin.properties"


def prepare(settings: Settings, data_dir: Path) -> str:
    """Write the administrator's properties file and return its password, "" without SASL or if a cluster
    upstream has the users; remove the file if no client needs any properties, or none would let it in."""
    path, broker = data_dir / PROPERTIES_NAME, settings.broker
    is_without = broker.has_sasl and not broker.admin_user
    if is_without or broker.listener_security_protocol == PLAINTEXT:
        path.unlink(missing_ok=True)
        return ""
    lines = [f"security.protocol={broker.listener_security_protocol}"]
    if broker.has_tls:
        lines += _tls(broker)
    password = ""
    if broker.has_sasl:
        _, password = tier_file.secret(data_dir, SECRET_NAME)
        lines += _sasl(settings["admin.user"], password)
    owner_file.write(path, ("\n".join(lines) + "\n").encode())
    return password


def _sasl(user: str, password: str) -> list[str]:
    jaas = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return [
        f"sasl.mechanism={SCRAM_SHA_512}",
        f"sasl.username={user}",
        f"sasl.password={password}",
        "# For Kafka's own tools:",
        f'# sasl.jaas.config={jaas} required username="{user}" password="{password}";',
    ]


def _tls(broker: BrokerSettings) -> list[str]:
    """Return how a client of this machine speaks TLS with the nodes. It trusts what they trust, or what they
    are, and shows what they show if it must show something."""
    keystore = Path(broker.ssl_keystore_location).resolve()
    trusted = Path(broker.ssl_truststore_location).resolve() if broker.ssl_truststore_location else keystore
    lines = [f"ssl.ca.location={trusted}"]
    if broker.ssl_endpoint_identification_algorithm.lower() != "https":
        lines.append("ssl.endpoint.identification.algorithm=none")
    if broker.ssl_client_auth != "none":
        lines += [f"ssl.certificate.location={keystore}", f"ssl.key.location={keystore}"]
        if broker.ssl_key_password:
            lines.append(f"ssl.key.password={broker.ssl_key_password}")
    return lines


def properties_of(data_dir: Path) -> Path | None:
    """Return the file that lets this machine's commands in; None if clients need no properties, or if the
    file is not ours."""
    path = data_dir / PROPERTIES_NAME
    return path if os.access(path, os.R_OK) else None
