"""What belongs to the process: threads, forks, garbage collection, float flags, progress."""
