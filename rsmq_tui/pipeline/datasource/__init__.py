"""The data source ``rsmq``: live queues read, streamed and written by Spark.

lists     the table `messages` of list queues, and pushing rows to them
messages  the table `messages` of RSMQ queues: columns, pushed-down filters, and tasks
options   options and errors, and the readers of the server that they name, run from Spark's synchronous iterators
source    the data source class, its schemas, and the table `queues`, also as a stream
writing   sends rows to queues in batches

    from rsmq_tui.pipeline.datasource import register

    register(spark)
    spark.read.format("rsmq").option("table", "messages").option("queue", "orders").load()
    spark.readStream.format("rsmq").option("every_s", "5").load()
    rows.write.format("rsmq").option("queue", "orders").mode("append").save()

For queues that are Redis Lists, set ``kind=list``, or set ``lists`` to names and patterns of keys, with commas:

    spark.read.format("rsmq").option("lists", "queue:*,mail").load()
    spark.read.format("rsmq").option("kind", "list").option("table", "messages").option("queue", "queue:mail").load()
    rows.write.format("rsmq").option("kind", "list").option("queue", "queue:mail").mode("append").save()

``lists_processing``, ``lists_leases`` and ``lists_take`` have the same meaning as in profiles.

Spark pickles the classes by name, so rsmq_tui has to be importable on the workers. With ``local[*]`` it is; on a
cluster, install it on each node and set PYSPARK_PYTHON to the path of its Python there before the session starts, or
ship it in an archive with ``spark.addArtifacts`` or ``--archives``.
"""

from rsmq_tui.pipeline.datasource.source import RsmqDataSource, register

__all__ = ["RsmqDataSource", "register"]
