"""Commands of the service: of who runs it, and of who submits to it."""
