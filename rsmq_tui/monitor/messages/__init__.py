"""Messages, as they are stored: what other clients wrote is read tolerantly, and nothing is changed.

decoding  compressed and encoded bodies, decoded, and encoded again; imports nothing of ours
peek      pages of messages, single messages, their states; the looks at messages during a poll
reading   tolerant reading of scores, ids and fields
"""
