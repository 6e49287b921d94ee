"""What samples allow to be said: intervals, shifts, verdicts, change points. Plain numbers in, plain numbers out."""
