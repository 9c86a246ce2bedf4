"""`python -m anole_lab`, the same as `anole-lab`."""

import sys

from .cli import main

sys.exit(main())
