"""The data source ``rsmq``: live queues read, watched and written by Spark.

    from rsmq_tui.pipeline.datasource import register

    register(spark)
    spark.read.format("rsmq").option("table", "messages").option("queue", "orders").load()
    spark.readStream.format("rsmq").option("every_s", "5").load()
    rows.write.format("rsmq").option("queue", "orders").mode("append").save()

Queues that are Redis Lists are meant by ``kind=list``, or by ``lists``, names and patterns of keys with commas:

    spark.read.format("rsmq").option("lists", "queue:*,mail").load()
    spark.read.format("rsmq").option("kind", "list").option("table", "messages").option("queue", "queue:mail").load()
    rows.write.format("rsmq").option("kind", "list").option("queue", "queue:mail").mode("append").save()

``lists_processing``, ``lists_leases`` and ``lists_take`` say how their other keys are named, as in profiles.

The classes travel to the workers by name: rsmq_tui has to be importable there. With ``local[*]`` it is; on a cluster it
is installed on each node, or in an archive that ``spark.addArtifacts`` or ``--archives`` ships.
"""

from rsmq_tui.pipeline.datasource.source import RsmqDataSource, register

__all__ = ["RsmqDataSource", "register"]
