"""Profiles: the servers in the configuration file, and the settings of each.

config     reads and checks the configuration file; an example file
passwords  passwords from a variable, a file or a command, read when a connection is made
profile    Profile: one server and its settings
values     reads single values and tables of the file; reports the line of each mistake
"""

from rsmq_tui.profiles.profile import Profile

__all__ = ["Profile"]
