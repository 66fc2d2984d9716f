"""Services of the process: threads, forks, garbage collection, float flags, progress."""
