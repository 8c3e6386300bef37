"""The history screen: the tables of an analysis over a time range; what is usual, for the live screens.

loading  loads an analysis and a time range in a thread
pages    the pages of the screen and their columns, charts, heat maps, and the pane with details of a row
screen   the screen, and the dialog that chooses the time range
usual    what an analysis says is usual at this hour of the week
"""
