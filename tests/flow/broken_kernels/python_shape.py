# expect: INCORRECT_SHAPE output 'y' has shape (1, 300), not (300,)
def run(x, w):
    return (x * w)[None]
