"""Problems of SOL-ExecBench, as its format was described to us: brought here as definitions, and written back."""
