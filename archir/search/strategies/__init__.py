"""The bundled multi-trial strategies, one module each."""
