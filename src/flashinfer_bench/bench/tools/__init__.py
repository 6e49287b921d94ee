"""Commands' work beside a run: the doctor, A/B runs, replays, `measure`, the task linter."""
