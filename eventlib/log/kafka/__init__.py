"""The log on Apache Kafka, on aiokafka's connections, protocol and record format.

Its producer and consumer are not used: each of them has sockets and background tasks of its own, and a service on 64
partitions would need hundreds. Here all tasks of a process share a handful of connections to each broker.
"""
