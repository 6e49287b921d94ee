"""Two sides measured apart: which traces count, ratios that know how runs differ, verdicts, gates, pages."""
