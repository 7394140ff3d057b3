"""`python -m drakit`."""

from drakit.main import script

script()
