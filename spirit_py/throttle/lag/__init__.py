"""Replica lag: how far every replica is behind, and when the copy waits for one.

==========  ===========================================================================
unapplied   what one replica has not applied: seconds, bytes, and when to wait (pure)
source      where the source is, a few times a second: the marks
replica     one replica, looked at in a thread of its own
replicas    which replicas there are: named, or discovered
throttler   the throttler
==========  ===========================================================================

How a replica is compared with the source's marks, the first of these that can be used:

1. by the GTIDs that the source executed since the first mark: exact for direct and chained
   replicas, several channels, members of a group and replicas with filters, which record the GTIDs
   of what they leave out. Needs no privilege on the replica.
2. by the place in the source's binlog up to which a direct replica has executed (REPLICATION
   CLIENT).
3. by the heartbeat: the row of the checkpoint table that the probe writes a few times a second,
   where it is replicated and may be read (SELECT).
4. by the times in ``performance_schema`` of what is being applied, by the clocks of both machines.
"""
