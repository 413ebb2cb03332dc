"""Apache Kafka for development and tests, as processes of this machine: no container, no root, no installation.

`with running_cluster() as cluster: ...` is a cluster that ends with its context, and with the process if that dies
first; `Cluster.create` makes one that stays (`eventlib broker start`). It listens on the loopback interface only.
"""

from eventlib.devtools.kafka.cluster import Cluster
from eventlib.devtools.kafka.config import ClusterConfig
from eventlib.devtools.kafka.owned import running_cluster
from eventlib.devtools.kafka.security import Sasl, Security, unsigned_token

__all__ = ["Cluster", "ClusterConfig", "Sasl", "Security", "running_cluster", "unsigned_token"]
