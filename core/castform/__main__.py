"""`python -m castform`."""

import sys

from castform.cli.main import main

sys.exit(main())
