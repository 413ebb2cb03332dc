"""The past again: what each task did, from its journal; and what today's code would have done."""
