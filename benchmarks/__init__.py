"""Speed as ratios, measured in one session against what a user would otherwise run. Never a timed test."""
