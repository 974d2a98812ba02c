"""Who answers: one file per provider, one protocol."""
