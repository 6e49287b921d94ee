"""The evaluation service: others submit solutions, workers pull them, traces go to a dataset."""
