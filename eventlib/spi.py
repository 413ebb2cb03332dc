"""The interfaces of adapters: a log, its readers and transactions, local stores, a codec. For who writes one.

`eventlib.testing.log_contract` and `store_contract` are the suites that an adapter has to pass.
"""

from eventlib.codec.port import Codec, UnknownSchema
from eventlib.log.port import Batch, Claim, Log, Membership, Reader, Record, Share, TopicPartition
from eventlib.store.port import Store, Stores

__all__ = [
    "Batch",
    "Claim",
    "Codec",
    "Log",
    "Membership",
    "Reader",
    "Record",
    "Share",
    "Store",
    "Stores",
    "TopicPartition",
    "UnknownSchema",
]
