"""How a table is cut into chunks, and how far the copy has come. Pure."""
