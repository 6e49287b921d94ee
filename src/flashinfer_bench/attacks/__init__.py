"""Attacks on the benchmark, and honest code that looks like them: package data, and what runs it.

`hostile/` and `honest/` hold one small solution per idea, `victims/` the definitions they are played on.
"""
