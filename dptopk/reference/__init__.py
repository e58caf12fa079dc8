"""The readable twin of every kernel and mechanism: specification, oracle, exact fallback."""
