"""Python code that capture follows in place of other code. Users do not call it."""
