"""The interfaces of adapters: a log, its readers and transactions, local stores, a codec. For who writes one.

`eventlib.testing.log_contract` and `store_contract` are the suites that an adapter has to pass.
"""

from eventlib.codec.base import Codec, UnknownSchema
from eventlib.log.base import Batch, Claim, Log, Membership, Reader, Share, TopicPartition
from eventlib.log.losses import warn_of_lost
from eventlib.model.event import contract_of
from eventlib.model.record import Record
from eventlib.state.base import Store, Stores

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
    "contract_of",
    "warn_of_lost",
]
