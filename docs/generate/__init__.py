"""Documentation that is made from the code it describes."""
