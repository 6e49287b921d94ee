# expect: COMPILE_ERROR solution 'python_arguments': python_arguments.py::run is declared as (x): too many positional arguments
# shows: (x, w)
def run(x):
    return x
