"""What users mark, configure and ask: nothing here depends on another package of framejit."""
