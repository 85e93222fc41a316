"""``spirit-py watch``: the change feed's stream as lines of JSON, on its own."""
