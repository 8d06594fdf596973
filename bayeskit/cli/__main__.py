"""``python -m bayeskit.cli``."""

import sys

from bayeskit.cli import main

sys.exit(main())
