"""The `pc` command: an edge that parses arguments, calls a service and prints."""
