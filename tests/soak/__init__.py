"""A soak: everything at once beside a busy workload, for hours, and the proof that nothing of it grows.

fit        whether a curve is flat, levels off or grows, by its slope with an interval
figures    the figures of a minute, what may become of each of them, and the report
inside     what each process that is watched has loaded: it counts its tasks and objects when it is asked
looking    what Linux, the processes themselves and the server say of processes, files and keys
users      those who use it: at a terminal, at a page, scraping; and the queues that come and go
running    starts all of it, and writes a sample each minute
"""
