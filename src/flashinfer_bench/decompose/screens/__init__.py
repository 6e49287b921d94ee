"""What the commands of `decompose` show."""
