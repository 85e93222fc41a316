"""How a table is cut into chunks, and which of them are copied. Pure."""
