"""One module per subject; a route names its lane, its verb, its bodies and every answer it has."""
