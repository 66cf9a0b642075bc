"""How one connects to a Kafka cluster, and as whom: plain values that travel through Ray once."""

from typing import NamedTuple

from actors.ground.carried import Rebuilding, by_name


class Login(NamedTuple):
    """What a client has to know to connect. Who prints it shows no password."""

    is_encrypted: bool = False
    """Whether TLS is spoken."""
    mechanism: str = ""
    """The mechanism of SASL; "": the client says nothing of who it is, unless by a certificate."""
    user: str = ""
    password: str = ""
    ca: str | None = None
    """The PEM file of the authorities that are trusted; None: the system's. Files have the same paths on
    every machine."""
    certificate: str | None = None
    """The PEM file of the client's own certificate."""
    key: str | None = None
    key_password: str | None = None
    is_verified: bool = True
    """Whether the server's certificate has to be signed by an authority that is trusted."""
    is_host_checked: bool = True
    """Whether it has to be for the host that was connected to."""

    def __reduce__(self) -> Rebuilding:
        return by_name(self)

    def __repr__(self) -> str:
        whom = f" as {self.user} by {self.mechanism}" if self.mechanism else ""
        return f"Login({self.protocol}{whom})"

    @property
    def protocol(self) -> str:
        """Return the security protocol as clients' settings name it."""
        return f"{'sasl_' if self.mechanism else ''}{'ssl' if self.is_encrypted else 'plaintext'}"


OPEN = Login()
"""How one connects to whoever asks neither for TLS nor for a user."""
