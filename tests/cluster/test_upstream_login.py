"""How a tier logs in at the cluster upstream: told once, kept for its owner's eyes, and shown nowhere."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from actors.ground.login import OPEN, Login
from actors.ground.spec import UpstreamSpec
from cluster import tier_file, upstream_login
from cluster.attaching.logins import logins
from cluster.settings import load
from cluster.tier_file import TierError
from tests.cluster.test_tier_file import TIER

SCRAM = (
    "security.protocol=sasl_ssl\nsasl.mechanism=SCRAM-SHA-512\nsasl.username=tier\n"
    "sasl.password=p=a,s s\nssl.ca.location=ca.pem\nssl.endpoint.identification.algorithm=none\n"
)
PLAIN = "security.protocol=sasl_plaintext\nsasl.mechanism=PLAIN\nsasl.username=c\nsasl.password=plain\n"
SPEC = UpstreamSpec("c", (("b1", 9092),), (("c1", 9093),), 1_000)


def told(data_dir: Path, **files: Path) -> UpstreamSpec:
    """What is told of the cluster, with the logins of these files; "_" stands for "." in settings."""
    given = {name.replace("_", "."): str(path) for name, path in files.items()}
    settings = load({"data.dir": str(data_dir), **given}, environment={})
    return logins(settings, data_dir).of(SPEC)


def written(directory: Path, name: str, text: str) -> Path:
    path = directory / name
    path.write_text(text)
    return path


def test_a_login_is_kept_for_the_next_start(tmp_path: Path) -> None:
    first = told(tmp_path, upstream_config=written(tmp_path, "given", SCRAM))
    assert first.brokers_login.user == "tier"
    assert first.controllers_login == first.brokers_login
    assert first.brokers_login.ca == str(Path("ca.pem").absolute())
    assert told(tmp_path).brokers_login == OPEN
    upstream_login.keep(tmp_path, first)
    assert told(tmp_path) == first
    both = told(tmp_path, upstream_controllers_config=written(tmp_path, "given", PLAIN))
    assert (both.brokers_login, both.controllers_login.user) == (first.brokers_login, "c")
    upstream_login.keep(tmp_path, both)
    assert told(tmp_path) == both
    kept = upstream_login.kept_files(tmp_path)
    assert [path.stat().st_mode & 0o077 for path in kept if path is not None] == [0, 0]


def test_what_is_open_again_is_kept_nowhere(tmp_path: Path) -> None:
    upstream_login.keep(tmp_path, told(tmp_path, upstream_config=written(tmp_path, "given", SCRAM)))
    upstream_login.keep(tmp_path, told(tmp_path, upstream_config=written(tmp_path, "given", "")))
    assert upstream_login.kept_files(tmp_path) == (None, None)


def test_passwords_are_in_no_words_and_not_in_the_tiers_file(tmp_path: Path) -> None:
    spec = told(tmp_path, upstream_config=written(tmp_path, "given", SCRAM))
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert "p=a,s s" not in f"{spec} {spec!r} {(spec,)}"
    assert repr(spec.brokers_login) == "Login(sasl_ssl as tier by SCRAM-SHA-512)"
    tier_file.write(tmp_path, replace(TIER, upstream=spec))
    assert "p=a,s s" not in (tmp_path / "tier.json").read_text()
    again = tier_file.read(tmp_path)
    assert again is not None
    assert again.upstream == spec._replace(brokers_login=OPEN, controllers_login=OPEN)


def test_a_file_that_cannot_be_read_or_says_something_else_is_named(tmp_path: Path) -> None:
    with pytest.raises(TierError, match="cannot be read"):
        told(tmp_path, upstream_config=tmp_path / "nowhere")
    with pytest.raises(TierError, match=r"acks: this property is not known here"):
        told(tmp_path, upstream_config=written(tmp_path, "given", "acks=all\n"))


def test_a_login_says_its_protocol() -> None:
    assert OPEN.protocol == "plaintext"
    assert Login(is_encrypted=True).protocol == "ssl"
    assert Login(mechanism="PLAIN", user="a").protocol == "sasl_plaintext"
