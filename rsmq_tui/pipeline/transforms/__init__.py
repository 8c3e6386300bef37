"""Pure functions from DataFrames to DataFrames: recorded history turned into the tables of an analysis."""
