"""Operations that move entries: shapes, indices, views, stores, joining and splitting."""
