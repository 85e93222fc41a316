"""Everything that talks to the server through mysqlclient."""
