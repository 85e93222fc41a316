"""Messages between the driver and the members of a gang, while tasks run.

======================  =====================================================================
:mod:`memory`           tasks in threads of the driver: nothing leaves the process
:mod:`variables`        tasks on Spark: user variables of the sessions, which both sides read
                        in ``performance_schema``; no table, no event of the binlog
:mod:`table`            tasks on Spark where the server does not show these variables:
                        rows of the checkpoint table
======================  =====================================================================

All go through what both sides have anyway, the process or the server: the driver opens no port that
a firewall could close. :mod:`choice` picks one for a gang.
"""
