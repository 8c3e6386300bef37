"""What it costs, against what else there is: ``python -m tests.bench`` measures both sides in the same run."""
