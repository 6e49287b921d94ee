"""From traces to paper: rows in, values and text out; nothing here prints, and torch never loads."""
