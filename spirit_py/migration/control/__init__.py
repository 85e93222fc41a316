"""Control while a migration runs: what operators ask of its process, and what it shows of itself.

``spirit-py ctl`` runs on any machine that reaches the server. It adds its request to a table beside
the migrated one (:mod:`spirit_py.checkpoint.queue`). The process looks there twice a second, from
the creation of that table to its end, carries requests out one after the other, and answers
each. In the same thread and session it writes its figures every second or two, which ``spirit-py
status`` shows. No failure here ends the run.

A pause and changed settings are kept in the checkpoint table (:class:`StandingOrders
<spirit_py.checkpoint.live.StandingOrders>`), so they hold for the next run of the same command too.

=================  ===============================================================================
``settings.py``    the settings that can be changed, and how they are written (pure)
``subject.py``     what a command offers so that it can be controlled
``verbs.py``       what each verb does to a migration, in this run and the next;
                   :mod:`spirit_py.migration.reverse.control` has the verbs of a revert
``figures.py``     what the run shows of itself, and for how long it could be resumed
``listener.py``    the thread that does all of this
``command.py``     the command ``spirit-py ctl``, and how a command follows its answer
=================  ===============================================================================
"""
