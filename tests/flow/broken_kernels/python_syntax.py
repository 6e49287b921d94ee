# expect: COMPILE_ERROR solution 'python_syntax': python_syntax.py cannot be imported: SyntaxError: '(' was never closed
# shows: File "python_syntax.py", line 4
def run(x, w):
    return (x * w
