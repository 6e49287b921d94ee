"""Numbers and tables as people read them; nothing here prints."""
