"""The checkpoint table beside each migrated table: its rows, and what a resume does with them.

============================================  ==============================================
``codec`` ``record`` ``live`` (pure)          the rows, and their JSON
``table`` ``proofs`` ``writer``               reading and writing them
``queue``                                     requests of operators, and their answers
``earlier_run`` ``decision`` (pure)           what an earlier run left; what a run does with it
``examination``                               the questions to the server for it
``drop``                                      ends what is proven to be the program's
============================================  ==============================================
"""
