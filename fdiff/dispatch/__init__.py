"""From a call to its result: traces that are kept, guards, tiers, and the fast path."""
