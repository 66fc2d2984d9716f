"""Tiers: who runs a tape, and when that changes."""
