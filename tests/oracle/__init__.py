"""Request transcripts, played against our tier and a real Kafka, every answer compared.

**Write** a function in `transcripts/<area>.py` (wire, classic, offsets, transactions, consumer, migration,
configs, admin, security, bad_input; modules are found by themselves, `<area>_<part>.py` too)::

    @transcript(rows=("C7", "C20"))                    # profile="base" is the default: see profiles.py
    def a_member_heartbeats(play: Play) -> None:
        \"\"\"One line: what it proves.\"\"\"
        a = play.connect("a")                          # one connection; client id "a" unless client_id=
        group = play.group("g")                        # unique to this run, "g" in the record
        told = a.ask("join_group", 9, group_id=group)  # answers are kio's entities
        joined = a.ask("join_group", 9, group_id=group, member_id=told.member_id)
        a.ask("heartbeat", 4, group_id=group, generation_id=joined.generation_id, member_id=joined.member_id)

`api` names and fields are kio's (snake case of Kafka's, durations in ms without suffix: `session_timeout`);
nested entities are dicts; what is not given has Kafka's default, or "", 0, null, or `requests.DEFAULTS`. A
field that the asked version lacks is left out (so that `cases={"v0": 0, ...}` can pass one set of fields to
all versions); one that no version has is a TypeError. `kits.py` has the usual ways in: `join`, `start_join`,
`sync`, `settle_alone`, `heartbeat`, `commit`, `fetch`, `beat_in`, `beat`, `describe`, `consumer_describe`.

Steps of a client: `ask`; `send`, then `.collect()` or `.expect_silence(seconds)` for an answer that is
parked (a connection answers in order, so who parks needs a connection of its own); `ask_until(holds, api,
version, ...)` polls and records the last answer only; `ask_bytes(frame)`, `ask_body(api, version, body)` and
`expect_closed()` for bytes; `quietly(...)` is an ask that is not recorded. Of the play: `topic(name,
partitions)` makes a topic, `topic_id(name)`, `delete_topic(name)`, `unique(name)` for other names,
`until(predicate)`, `wait(seconds)` (only where the rule is about time), `note(what, value)` compares a
property worked out from answers.

What is compared: everything. Random ids become "#1", "#2" by first appearance, topic ids "id of t", places
(node ids, hosts, ports) "somewhere". What Kafka leaves open is named, never dropped in silence: for all
transcripts in `rules.py`, for one step with `ignore=("leader",)` (fields at any depth) or
`unordered=("topics",)` (lists compared sorted). Ignore what is random and compare its property by `note`.
Keep transcripts short (many small ones), deterministic against Kafka (`record` plays each twice), and their
waits under two seconds. `rows` are the feature rows it proves: the row table is made from them.

**Record** what Kafka says, from the repository's top (a broker of each profile is started by itself and
stopped again; --bootstrap takes a running one, which must have the profile's settings)::

    python -m tests.oracle record [PARTS OF NAMES] [--bootstrap HOST:PORT] [-v]

**Replay** against a tier (started by itself, or one that runs), compared with what was recorded::

    python -m tests.oracle replay [PARTS OF NAMES] [--bootstrap HOST:PORT] [-v]

A difference is printed as the steps up to it and both answers. Where Kafka has a bug that is not copied:
leave that step out and say so in the docstring. `test_golden.py` replays all by default (marker `clients`,
no JVM), `test_lockstep.py` plays both sides live (marker `kafka`). `python -m tests.oracle list` shows all.
"""
