"""Commands of contests: of who organises one, and of its teams."""
