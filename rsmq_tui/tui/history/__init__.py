"""The history screen: the tables of an analysis over a time range.

charts   charts and heat maps
loading  loads an analysis and a time range in a thread
pages    the pages of the screen and their columns
screen   the screen, and the dialog that chooses the time range
"""
