"""Budgets of many calls: sessions, filters, and ledgers that keep them on disk."""
