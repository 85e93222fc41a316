"""All that talks to the server: sessions here; tables, options, TLS and values in folders."""
