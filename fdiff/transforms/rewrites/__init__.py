"""The rewrite rules of `simplify`: equal, shorter programs in the place of single nodes."""
