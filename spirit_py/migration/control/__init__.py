"""Control while a migration runs: what operators ask of its process, and what it shows of itself.

``spirit-py ctl`` adds its request to a table (:mod:`spirit_py.checkpoint.queue`). The process looks
there twice a second, carries requests out one after the other, and answers each. In the same thread
and session it writes its figures every second or two. No failure here ends the run. A pause and
changed settings are kept in the checkpoint table (:class:`StandingOrders
<spirit_py.checkpoint.live.StandingOrders>`), so they hold for the next run of the command too.
"""
