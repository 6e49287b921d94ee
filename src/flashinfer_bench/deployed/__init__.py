"""Kernels in whole models: measured, checked and scored as they are served."""
