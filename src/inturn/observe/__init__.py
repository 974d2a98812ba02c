"""Metrics and, later, logs and traces: one name per transition, by the words of the glossary."""
