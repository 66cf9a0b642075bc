"""How to reach a Kafka: client properties in librdkafka's names, from a file."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from actors.ground.login import Login
from actors.upstream.connecting import tls_of
from cluster.tier_file import TierError

SASL_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


class ClientProperties(BaseModel):
    """The client properties that matter here; others in the file are errors: none is ignored silently."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True, frozen=True)

    bootstrap: str = Field(alias="bootstrap.servers", min_length=1)
    client_id: str = Field("groupd-cli", alias="client.id")
    security_protocol: str = Field("plaintext", alias="security.protocol")
    sasl_mechanism: str = Field("PLAIN", alias="sasl.mechanism")
    sasl_username: str = Field("", alias="sasl.username")
    sasl_password: str = Field("", alias="sasl.password", repr=False)
    ssl_ca: str | None = Field(None, alias="ssl.ca.location")
    ssl_certificate: str | None = Field(None, alias="ssl.certificate.location")
    ssl_key: str | None = Field(None, alias="ssl.key.location")
    ssl_key_password: str | None = Field(None, alias="ssl.key.password", repr=False)
    ssl_identification: str = Field("https", alias="ssl.endpoint.identification.algorithm")
    is_verified: bool = Field(True, alias="enable.ssl.certificate.verification")

    @field_validator("security_protocol")
    @classmethod
    def _known_protocol(cls, value: str) -> str:
        value = value.lower()
        if value not in ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl"):
            raise ValueError("plaintext, ssl, sasl_plaintext or sasl_ssl is allowed")
        return value

    @field_validator("sasl_mechanism")
    @classmethod
    def _known_mechanism(cls, value: str) -> str:
        if value not in SASL_MECHANISMS:
            raise ValueError(f"one of {', '.join(SASL_MECHANISMS)} is allowed")
        return value

    @property
    def has_sasl(self) -> bool:
        return self.security_protocol.startswith("sasl")

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Return host and port of each bootstrap server. Raises TierError."""
        found = []
        for address in self.bootstrap.split(","):
            host, colon, port = address.strip().rpartition(":")
            if not colon or not port.isdigit():
                raise TierError(f"--bootstrap {address.strip()}: host:port is expected")
            found.append((host.strip("[]"), int(port)))
        return found

    def librdkafka(self) -> dict[str, Any]:
        """Return the properties for a client of librdkafka's."""
        return self.model_dump(by_alias=True, exclude_none=True, exclude_defaults=True)

    def login(self) -> Login:
        """Return how a connection is made, with files at absolute paths."""
        files = (self.ssl_ca, self.ssl_certificate, self.ssl_key)
        ca, certificate, key = (None if each is None else str(Path(each).absolute()) for each in files)
        return Login(
            is_encrypted=self.security_protocol.endswith("ssl"),
            mechanism=self.sasl_mechanism if self.has_sasl else "",
            user=self.sasl_username,
            password=self.sasl_password,
            ca=ca,
            certificate=certificate,
            key=key,
            key_password=self.ssl_key_password,
            is_verified=self.is_verified,
            is_host_checked=self.ssl_identification == "https",
        )

    def tls(self) -> ssl.SSLContext | None:
        """Return the context of TLS; None without TLS. Raises TierError."""
        try:
            return tls_of(self.login())
        except OSError as error:  # SSLError is one
            raise TierError(f"ssl.* properties: {error}") from None


def properties(bootstrap: str | None, file: Path | None) -> ClientProperties:
    """Return what a properties file says; `bootstrap` counts more. Raises TierError."""
    given: dict[str, Any] = {} if file is None else _read(file)
    if bootstrap is not None:
        given["bootstrap.servers"] = bootstrap
    try:
        return ClientProperties.model_validate(given)
    except ValidationError as error:
        where = "" if file is None else f"{file}: "
        raise TierError(where + "; ".join(_words(each) for each in error.errors())) from None


def _words(error: Any) -> str:
    """Return what pydantic found, in plain words."""
    name = ".".join(str(part) for part in error["loc"])
    says = {
        "extra_forbidden": "this property is not known here",
        "missing": "it is missing: name the Kafka with it, or with --bootstrap",
    }.get(error["type"], error["msg"].removeprefix("Value error, "))
    return f"{name}: {says}"


def names_bootstrap(file: Path | None) -> bool:
    """Return whether a properties file says which Kafka is meant. Raises TierError."""
    return file is not None and "bootstrap.servers" in _read(file)


def _read(file: Path) -> dict[str, Any]:
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise TierError(f"--command-config {file} cannot be read: {error}") from None
    found: dict[str, Any] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not equals:
            raise TierError(f"{file}, line {number}: name=value is expected")
        name = "sasl.mechanism" if name.strip() == "sasl.mechanisms" else name.strip()
        found[name] = value.strip()
    return found
