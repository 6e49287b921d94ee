"""A live call is answered by the best measured solution; `fib.apply(...)` is a function as well."""
