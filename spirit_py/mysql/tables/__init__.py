"""Tables: their definition, their identity, and how new ones are made and dropped."""
