"""What a run tells people and machines."""
