# expect: INCORRECT_NUMERICAL violation overlapping_output
# shows: violation changed_inputs
def run(x, w):
    return x.mul_(w)
