"""Users are made of certificates' names as Kafka makes them (`ssl.principal.mapping.rules`)."""

from __future__ import annotations

import pytest

from actors.security.principal_rules import NoRule, PrincipalRules

SEVERAL = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/, "
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L , "
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U,"
    "DEFAULT"
)
"""Rules of the kind that Kafka's documentation shows."""


@pytest.mark.parametrize(
    ("rules", "name", "user"),
    [
        ("DEFAULT", "CN=alice,O=shop", "CN=alice,O=shop"),
        (SEVERAL, "CN=duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        (SEVERAL, "CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        (SEVERAL, "cn=JohnDoe,DC=x", "JOHNDOE"),
        (SEVERAL, "OU=JavaSoft,O=Sun", "OU=JavaSoft,O=Sun"),
        ("RULE:^CN=([^,]+),.*$/$1,$2/", "CN=a,O=b", "a,$2"),
        (r"RULE:^CN=([^,]+)$/a\/$1/", "CN=a", "a/a"),
        ("RULE:^CN=(a)(x)?$/$1-$2/", "CN=a", "a-"),
        ("RULE:^CN=(a{1,3})$/$1/", "CN=aaa", "aaa"),
    ],
)
def test_the_first_rule_that_fits_says_who_it_is(rules: str, name: str, user: str) -> None:
    assert PrincipalRules(rules).principal(name) == f"User:{user}"


def test_who_shows_no_certificate_is_anonymous() -> None:
    assert PrincipalRules("RULE:^CN=nobody$/x/").principal(None) == "User:ANONYMOUS"


def test_a_name_without_a_rule_is_nobodys() -> None:
    with pytest.raises(NoRule, match="'O=shop'"):
        PrincipalRules("RULE:^CN=(.*)$/$1/").principal("O=shop")


@pytest.mark.parametrize("text", ["alice", "RULE:a/b", "RULE:a/b/X", "DEFAULT/L", "RULE:a/b/Lx", "RULE:(/x/"])
def test_what_is_no_rule_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match=r"RULE|alice|DEFAULT"):
        PrincipalRules(text)
