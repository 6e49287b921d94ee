"""Commands that run kernels: `run`, `check`, `ab`, `replay`, `doctor`."""
