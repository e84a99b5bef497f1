"""Values of records: the cell grammar, the JSON decoder, casts of Arrow columns, and checks of text."""
