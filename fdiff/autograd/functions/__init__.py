"""Operations with the user's rules on recorded arrays: `Function` and checkpoints."""
