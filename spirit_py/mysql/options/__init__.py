"""Where the options of a connection come from, as the mysql client has it.

``file`` reads one option file, ``login`` the encrypted file of ``mysql_config_editor``,
``defaults`` knows which files there are and in which order they count, ``dsn`` reads a URL, and
``connection`` joins all that with the command line. From what counts least: option files, the login
path, the URL, the environment, the command line.
"""
