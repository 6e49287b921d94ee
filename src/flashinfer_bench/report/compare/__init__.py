"""Two sides measured apart: which traces speak, ratios that know how runs differ, verdicts, gates, pages."""
