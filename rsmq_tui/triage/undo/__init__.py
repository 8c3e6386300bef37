"""Undoing changes, or some of their messages.

inverse  the inverse of a change, batch by batch, with the same guards
part     the messages of a change, and those that an undo of a part selects
preview  which change an undo undoes, and what that would do now
"""
