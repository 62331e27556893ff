"""Rows. Every function takes a connection, joins its transaction and never commits."""
