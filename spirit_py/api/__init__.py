"""The program as a library: each command as a function with types, and no output of its own.

Users import the names from :mod:`spirit_py`, which loads this package on first use. Nothing here
writes to a terminal, configures logging or touches signals.
"""

import logging

# Without a handler of the application's, Python would print warnings to the standard error.
logging.getLogger("spirit_py").addHandler(logging.NullHandler())
