"""What tests of faults share: whether the long part runs (`make test-faults`)."""

import os

LONG = os.environ.get("FDIFF_FAULT_TESTS") == "1"
