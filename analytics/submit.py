"""`python -m analytics`, as spark-submit starts it: `spark-submit [its options] submit.py rebuild --log URL --out DIR`."""

import sys
from pathlib import Path

# Python searches this file's directory first: there, these modules would be taken for others of the same names.
sys.path[0] = str(Path(__file__).resolve().parents[1])

from analytics.__main__ import main  # noqa: E402  only now is it the right one

main()
