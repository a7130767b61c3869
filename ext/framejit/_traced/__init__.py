"""Python code that capture follows instead of other code. Users do not call it."""
