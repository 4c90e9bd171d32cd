"""The tasks of the course, a module a day."""
