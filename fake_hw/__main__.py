"""Run the command line: `python -m fake_hw`."""

import sys

from fake_hw.cli import main

sys.exit(main())
