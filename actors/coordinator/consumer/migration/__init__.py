"""Groups that change their protocol while their members stay alive (G1 to G8, KIP-848's migration).

`upgrade`: a classic group becomes a consumer group when the first member of the new protocol joins it.
`classic_members`: JoinGroup, SyncGroup, Heartbeat and LeaveGroup of those who have not changed yet; the
coordinator answers them out of the consumer group's epochs and assignments, nobody leads and nobody waits.
`downgrade`: the group becomes a classic one again when the last member of the new protocol is gone.

What kind a group is, is decided by its CONSUMER_GROUP_METADATA record: a conversion writes the new kind in
full before that record turns, and takes the old kind away after it. A big group's conversion may be split
over two Raft entries of which a leader's fall leaves only the first; the next leader then finds one kind
complete and removes what there is of the other (`repair`).
"""
