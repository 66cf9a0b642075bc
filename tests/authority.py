"""Certificates for tests, made by the openssl program."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

HOSTS = ("IP:127.0.0.1", "DNS:localhost")


class Issued(NamedTuple):
    """The paths of one certificate."""

    certificate: Path
    key: Path
    both: Path
    """The file of the key and the certificate, as `ssl.keystore.location` has it."""


class Authority:
    """A certificate authority."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.directory = directory
        self.path = directory / "ca.pem"
        self._key = directory / "ca.key"
        run = (*_request(self._key, "/CN=authority"), "-x509", "-days", "90", "-out", str(self.path))
        openssl(*run, "-addext", "keyUsage=critical,keyCertSign")

    def certify(
        self,
        name: str,
        *,
        subject: str = "",
        days: int = 60,
        hosts: tuple[str, ...] = HOSTS,
        usage: str = "",
        password: str = "",
        rsa: bool = False,
    ) -> Issued:
        """Make a key and a certificate for it. `days` of less than 0: it has ended. A password encrypts the
        key."""
        certificate, key, both, asked = (
            self.directory / f"{name}.{kind}" for kind in ("pem", "key", "both", "csr")
        )
        extensions = ["-addext", f"subjectAltName={','.join(hosts)}"] if hosts else []
        if usage:
            extensions += ["-addext", f"extendedKeyUsage={usage}"]
        openssl(*_request(key, subject or f"/CN={name}", rsa=rsa), *extensions, "-out", str(asked))
        signer = ("-CA", str(self.path), "-CAkey", str(self._key), "-CAcreateserial", "-days", str(days))
        copied = ("-copy_extensions", "copy")
        openssl("x509", "-req", "-in", str(asked), *signer, *copied, "-out", str(certificate))
        if password:
            encrypted = key.with_suffix(".encrypted")
            openssl(
                "pkcs8", "-topk8", "-in", str(key), "-passout", f"pass:{password}", "-out", str(encrypted)
            )
            key = encrypted
        both.write_text(key.read_text() + certificate.read_text())
        return Issued(certificate, key, both)


def _request(key: Path, subject: str, *, rsa: bool = False) -> tuple[str, ...]:
    kind = ("rsa:3072",) if rsa else ("ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")
    return ("req", "-utf8", "-newkey", *kind, "-nodes", "-keyout", str(key), "-subj", subject)


def openssl(*arguments: str) -> None:
    subprocess.run(("openssl", *arguments), check=True, capture_output=True, timeout=30)
