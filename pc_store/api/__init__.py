"""The HTTP edge: reads requests, calls one service each, words the answers. No SQL and no rules."""
