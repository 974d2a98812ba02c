"""`inturn bench turns`: our turns against the recipe that people copy, and against our own scripts without our link."""
