"""Tests of the built site: `make test-site` collects them, with Chromium."""

import os

if "FDIFF_SITE_TESTS" not in os.environ:
    collect_ignore_glob = ["*.py"]
