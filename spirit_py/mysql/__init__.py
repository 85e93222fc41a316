"""All that talks to the server: sessions here; locks, tables and values of rows in folders."""
