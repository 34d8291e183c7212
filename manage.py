#!/usr/bin/env python
"""Django's command line, from the project's folder; installed, it is `allocator-manage`."""

from allocator_service.command_line import main

if __name__ == "__main__":
    main()
