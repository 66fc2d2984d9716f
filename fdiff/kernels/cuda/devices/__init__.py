"""The device: real or simulated, its driver and libraries, and programs on it."""
