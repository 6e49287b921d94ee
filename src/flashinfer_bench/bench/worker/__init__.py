"""The child's side: a fork server, and what it forks, a judge or a candidate."""
