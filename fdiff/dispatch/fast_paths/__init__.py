"""Fast paths: calls that go to a kernel without Python in between."""
