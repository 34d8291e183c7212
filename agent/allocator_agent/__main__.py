"""`python -m allocator_agent`."""

import sys

from allocator_agent.cli import main

sys.exit(main())
