# expect: INCORRECT_NUMERICAL trial 0, call 0: output 'y': 300 of 300 elements differ
# shows: w is torch.Size([300])
def run(x, w):
    print("w is", w.shape)
    return x * w + 1
