"""The offline agent: no key, no network, no guessing."""
