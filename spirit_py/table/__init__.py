"""What a table is: definition, mapping from old to new columns, values, names. Pure."""
