"""Makes `python -m counterfoil.server` the same as `counterfoil`."""

import sys

from counterfoil.server.main import main

if __name__ == "__main__":
    sys.exit(main())
