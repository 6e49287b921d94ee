"""Authors by a score: names, formulas, who attempted what, and pages."""
