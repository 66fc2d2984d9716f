"""Operations entry by entry: the table of elementwise functions, and functions composed of them."""
