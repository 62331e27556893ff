"""Assets, one module each, under the asset's own name."""
