# expect: INCORRECT_NUMERICAL trial 0, call 0: output 'y': 44 of 300 elements differ, 44 of them were never written
# shows: at [256]: never written, expected
def run(x, w, y):
    for start in range(0, len(x) - 127, 128):
        y[start : start + 128] = (x * w)[start : start + 128]
