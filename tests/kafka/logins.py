"""How clients and servers of Kafka's own are told to log in, and whose certificates they believe."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.authority import Authority

PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"


def java_login(mechanism: str, user: str, password: str, authority: Authority | None) -> dict[str, str]:
    """The settings of a client in Java that logs in by SCRAM; with an authority it speaks TLS."""
    return {
        "security.protocol": "SASL_PLAINTEXT" if authority is None else "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{SCRAM} required username="{user}" password="{password}";',
        **({} if authority is None else java_stores({"truststore": authority.path})),
    }


def java_stores(stores: Mapping[str, Path]) -> dict[str, str]:
    """Where a server or client in Java finds its key and the authorities that it believes, as PEM files."""
    return {
        f"ssl.{name}.{what}": value
        for name, path in stores.items()
        for what, value in (("type", "PEM"), ("location", str(path)))
    }


def write_properties(path: Path, properties: Mapping[str, Any]) -> Path:
    """Write a file of properties; returns where."""
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return path
