"""Proxies of the user's objects, classes, containers and modules."""
