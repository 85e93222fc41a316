"""Locks of the server, the sessions that hold them, and what stands in their way."""
