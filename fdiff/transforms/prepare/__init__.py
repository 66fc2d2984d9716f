"""What is done to every traced tape (`pipeline.PREPARE`)."""
