"""Rewrite rules: equal, shorter programs in the place of single nodes.

A rule stands on the record of its op (`Lowering.rewrites`), in the order in which rules are asked. It
must give the same values for every input, NaN and infinities included: ``0 * x`` is kept, and `ZERO`
never reaches a tape. Rules call ops by their names, for the records of some are made after the rules.
"""
