"""Proposers and embedders: a model, or the builtin program, reads evidence and proposes."""
