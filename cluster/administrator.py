"""The user that a tier with authentication begins with, and the client properties that let the CLI in.

The password is a secret of the data directory. While the tier wants clients to authenticate,
`admin.properties` lies beside it, for the commands on this machine and for Kafka's own tools.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from actors.ground.spec import SASL_PLAINTEXT
from actors.security.scram import SCRAM_SHA_512
from cluster import owner_file, tier_file
from cluster.settings import Settings

SECRET_NAME: Final = "admin-secret"  # noqa: S105
PROPERTIES_NAME: Final = "admin.properties"


def prepare(settings: Settings, data_dir: Path) -> str:
    """Write the administrator's properties file and return its password; without SASL, remove the file and
    return ""."""
    path = data_dir / PROPERTIES_NAME
    if settings["listener.security.protocol"] != SASL_PLAINTEXT:
        path.unlink(missing_ok=True)
        return ""
    _, password = tier_file.secret(data_dir, SECRET_NAME)
    user, jaas = settings["admin.user"], "org.apache.kafka.common.security.scram.ScramLoginModule"
    lines = (
        f"security.protocol={SASL_PLAINTEXT}",
        f"sasl.mechanism={SCRAM_SHA_512}",
        f"sasl.username={user}",
        f"sasl.password={password}",
        "# For Kafka's own tools:",
        f'# sasl.jaas.config={jaas} required username="{user}" password="{password}";',
    )
    owner_file.write(path, ("\n".join(lines) + "\n").encode())
    return password


def properties_of(data_dir: Path) -> Path | None:
    """Return the file that lets this machine's commands in; None if nobody has to authenticate, or if the
    file is not ours."""
    path = data_dir / PROPERTIES_NAME
    return path if os.access(path, os.R_OK) else None
