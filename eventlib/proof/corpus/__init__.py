"""A corpus: recorded decisions that cover an application's code, kept beside it, and decided again as tests."""

from eventlib.proof.corpus.cutting import Cut, cut
from eventlib.proof.corpus.decisions import CorpusDecision
from eventlib.proof.corpus.files import Corpus

__all__ = ["Corpus", "CorpusDecision", "Cut", "cut"]
