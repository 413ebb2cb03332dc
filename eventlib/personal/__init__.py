"""Personal data: fields that are encrypted with one key for each subject, and erased by destroying the key.

It knows the model and where keys are kept. Begin with `cipher`, then `ring`.
"""

from eventlib.model.personal import ERASED, MASKED, Personal, is_erased, masked
from eventlib.personal.pseudonyms import pseudonym

__all__ = ["ERASED", "MASKED", "Personal", "is_erased", "masked", "pseudonym"]
