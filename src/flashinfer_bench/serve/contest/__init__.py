"""Contests on the service: teams enter solutions, and learn of private workloads no more than a score."""
