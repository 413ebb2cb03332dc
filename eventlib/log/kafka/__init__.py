"""The log on Apache Kafka, built on aiokafka's connections, protocol and record format.

aiokafka's producer and consumer are not used: each has its own sockets and background tasks, and a service with 64
partitions would need hundreds. Here all tasks of a process share a few connections to each broker.
"""
