"""The process that plans and waits: it starts workers, hands them jobs, and never imports torch."""
