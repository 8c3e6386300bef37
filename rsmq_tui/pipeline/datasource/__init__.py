"""The data source ``rsmq``: live queues read, watched and written by Spark.

    from rsmq_tui.pipeline.datasource import register

    register(spark)
    spark.read.format("rsmq").option("table", "messages").option("queue", "orders").load()
    spark.readStream.format("rsmq").option("every_s", "5").load()
    rows.write.format("rsmq").option("queue", "orders").mode("append").save()

The classes travel to the workers by name: rsmq_tui has to be importable there. With ``local[*]`` it is; on a cluster it
is installed on each node, or in an archive that ``spark.addArtifacts`` or ``--archives`` ships.
"""

from rsmq_tui.pipeline.datasource.source import RsmqDataSource, register

__all__ = ["RsmqDataSource", "register"]
