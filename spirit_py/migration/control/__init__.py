"""Control while a migration runs: what operators ask of its process, and what it shows of itself.

``spirit-py ctl`` adds its request to a table (:mod:`spirit_py.checkpoint.queue`), where the process
looks twice a second. A pause and changed settings are in the checkpoint table
(:class:`~spirit_py.checkpoint.live.StandingOrders`): they hold for the next run of the command too.
"""
