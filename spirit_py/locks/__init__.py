"""Named locks and table locks of the server, and the sessions that block them."""
