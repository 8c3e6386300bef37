"""The history screen.

- charts: Charts and heat maps of a range of time.
- loading: Which analysis and range of time is shown, and loading it in a thread.
- pages: The pages of the history screen and their columns.
- screen: The history screen: a range of time of an analysis, and the dialog that chooses the range.
"""
