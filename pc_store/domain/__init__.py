"""Values and rules of the product, pure: no I/O, no clock, no randomness of their own."""
