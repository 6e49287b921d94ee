# expect: COMPILE_ERROR solution 'python_import': python_import.py cannot be imported: ModuleNotFoundError: No module named 'fastkernels'
# shows: File "python_import.py", line 3
import fastkernels


def run(x, w):
    return fastkernels.scale(x, w)
