"""Source is generated and compiled at the first call.

how: `exec` of a text that depends on the sizes, as just-in-time compilers in Python do
plays: row_sum
"""

kernels = {}

TEMPLATE = """
def kernel(x):
    return x.view({rows}, {width}).sum(dim=1)
"""


def run(x):
    if x.shape not in kernels:
        names = {}
        exec(TEMPLATE.format(rows=x.shape[0], width=x.shape[1]), names)
        kernels[x.shape] = names["kernel"]
    return kernels[x.shape](x)
