"""Mutants: small mistakes put into the library on purpose, to see whether a test notices."""
