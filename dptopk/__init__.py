"""dptopk."""
