"""Readers of real log formats: each turns one file into sources and rejected lines."""
