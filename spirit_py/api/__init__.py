"""The program as a library: each command as a function with types, and no output of its own.

``options`` types the arguments, ``values`` reads them, and the configuration is built as for the
command line. Users import the names from :mod:`spirit_py` itself, which loads this package when one
of them is first used. Nothing here writes to a terminal, configures logging or touches signals. A
log record of ours is the application's to show.
"""

import logging

# Without a handler of the application's, Python would print warnings to the standard error.
logging.getLogger("spirit_py").addHandler(logging.NullHandler())
