"""What must hold for a decomposition: each rule's code, its claim, and what to do where it does not hold."""

from __future__ import annotations

from dataclasses import dataclass

from flashinfer_bench.decompose.verify.findings import Severity, Violation


@dataclass(frozen=True, slots=True)
class VerificationRule:
    """Something that holds for a good decomposition."""

    code: str
    rung: str
    claim: str
    remedy: str


LAYOUT, FILES, GRAPH, COVERAGE, SHADOW, COMPOSITION, SEEDS = RUNGS = (
    "layout",
    "files",
    "graph",
    "coverage",
    "shadow",
    "composition",
    "seeds",
)
"""The stages, in the order in which they run; reports call them rungs."""

RULES: dict[str, VerificationRule] = {
    code: VerificationRule(code, rung, claim, remedy)
    for code, rung, claim, remedy in (
        (
            "LAY-tree", LAYOUT,
            "decomposition_tree.json has the keys of its schema, each with a value that fits.",
            "Write it as docs/decompose-layout.md says.",
        ),
        (
            "LAY-file", LAYOUT, "Every node has a file that can be imported.",
            "Write the file, or mend what Python says about it.",
        ),
        (
            "LAY-stray", LAYOUT, "Every Python file in a level's folder belongs to a node.",
            "Delete the file, or give it a node in decomposition_tree.json.",
        ),
        (
            "LAY-level", LAYOUT,
            "A node lies in its level's folder, its children on that level or below; leaves are kernels.",
            "Move the file, set `level`, or split a leaf that is no kernel into children.",
        ),
        (
            "LAY-child", LAYOUT, "Children are nodes of the tree, and no node contains itself.",
            "Name an existing node's id in `children`, or add the node.",
        ),
        (
            "LAY-count", LAYOUT, "The tree lists as many children and instances as the run has calls.",
            "Set `children` and `instance_count` to what is called.",
        ),
        (
            "FILE-names", FILES,
            "A file defines Model, get_inputs, get_init_inputs and get_expected_output_shape.",
            "Define it; see docs/decompose-layout.md.",
        ),
        (
            "FILE-fails", FILES, "A file's model runs on its own inputs.",
            "Mend the file until `python FILE.py` prints PASS.",
        ),
        (
            "FILE-test", FILES, "A file's own test passes.",
            "Mend the file until `python FILE.py` prints PASS.",
        ),
        (
            "FILE-weak", FILES, "On a workload, kernels that leave work out fail.",
            "Give the workload inputs on which the answer depends: masks that hide something, numbers that differ.",
        ),
        (
            "FILE-shape", FILES, "A file's outputs have the shapes that it and the tree declare.",
            "Correct get_expected_output_shape() and the tree, or the computation.",
        ),
        (
            "FILE-sizes", FILES,
            "A file's inputs have the sizes and dtypes which the original's own run gives it.",
            "Use the original's sizes in get_inputs() and in the tree; never reduce them.",
        ),
        (
            "FILE-state", FILES,
            "A node holds no parameter, buffer or other tensor; everything is given to forward.",
            "Make it an input of forward, and bind it to its name in the original at the root.",
        ),
        (
            "FILE-writes", FILES, "A node leaves its inputs as they were.",
            "Use the operation that returns a new tensor, or write to a clone.",
        ),
        (
            "FILE-unused", FILES, "A node uses each of its inputs.",
            "Remove the input here, in the tree and where the node is called, or use it.",
        ),
        (
            "FILE-constant", FILES, "A file's constants are those that its identity in the tree was made from.",
            "Write the original's constant: one that is nearly right passes as a difference of rounding.",
        ),
        (
            "FILE-step", FILES, "A step's original.py and refactored.py compute what the node's file computes.",
            "Write the step again from the node's file.",
        ),
        (
            "FILE-definition", FILES,
            "A definition runs at its workloads' sizes, gives the declared shapes and computes what its node does.",
            "Correct the definition's reference, its axes or its outputs.",
        ),
        (
            "GRAPH-compute", GRAPH,
            "A parent calls children; what it does itself is plumbing: views, reshapes, slices, copies.",
            "Move the operation into a kernel of its own and call that.",
        ),
        (
            "GRAPH-host", GRAPH, "A parent reads no values of tensors.",
            "Write down what the original's run decided, and leave the decision out.",
        ),
        (
            "GRAPH-child", GRAPH,
            "What a parent holds are instances of its children, in attributes called like their nodes.",
            "Hold children only, each in an attribute named by its node's id, without containers around them.",
        ),
        (
            "GRAPH-uncalled", GRAPH, "A parent calls each child it names.",
            "Call it, or remove it from `children`.",
        ),
        (
            "GRAPH-kernel", GRAPH, "A leaf is one logical operation.",
            "Split it: a file for each operation, and a parent that calls them; or verify with the --overrides used.",
        ),
        (
            "BIND-unmapped", COVERAGE,
            "Each parameter, buffer or constant that the original reads is bound to an input of the root.",
            "Give the root an input for it and name it in the root's `bindings`.",
        ),
        (
            "BIND-unknown", COVERAGE, "Bindings name inputs of the node and tensors of the original.",
            "Use the names of the original's state_dict, and the node's input names.",
        ),
        (
            "BIND-differs", COVERAGE, "An instance is given the tensors that its bindings name.",
            "Correct the instance's `bindings`, or pass the tensor that they name.",
        ),
        (
            "COVER-missing", COVERAGE,
            "Each operation of the original is in a leaf, or is plumbing, a side effect or dead.",
            "Add a leaf for the operation and call it.",
        ),
        (
            "COVER-twice", COVERAGE, "No operation of the original is in two leaves.",
            "Call one of them and pass its output on.",
        ),
        (
            "COVER-input", COVERAGE, "A leaf is given tensors which the original computes, up to plumbing.",
            "Split the model where the original has a tensor, and keep its operations.",
        ),
        (
            "COVER-export", COVERAGE,
            "torch.export sees the same operations in the original and in the pieces.",
            "Look for an operation that is missing, or that is written differently.",
        ),
        (
            "SHADOW-differs", SHADOW, "A node, given the original's tensors, makes the original's tensors.",
            "Compute what the original computes at this place: compare attributes, order and constants.",
        ),
        (
            "COMP-differs", COMPOSITION,
            "A parent's children together make what its file makes, and the root's what the original makes.",
            "Compare the order of the calls, the arguments and the plumbing with the original.",
        ),
        (
            "COMP-copy", COMPOSITION,
            "The class of a child in its parent's file computes what the child's own file computes.",
            "Copy Model from the child's file into the parent's.",
        ),
        (
            "SEED-finite", SEEDS, "Outputs are finite.",
            "Look for a wrong scale, a missing norm or an overflow.",
        ),
        (
            "SEED-constant", SEEDS, "Outputs differ between places and between seeds.",
            "Look for an output that does not depend on the inputs; comparisons say little about it.",
        ),
    )
}  # fmt: skip


def found(
    code: str,
    file: str,
    message: str,
    *,
    severity: Severity = "error",
    node: str | None = None,
    tensor: str | None = None,
    line: int | None = None,
) -> Violation:
    """Say that a rule does not hold somewhere; the rule knows the remedy."""
    return Violation(
        file=file,
        code=code,
        message=message,
        remedy=RULES[code].remedy,
        severity=severity,
        node=node,
        tensor=tensor,
        line=line,
    )
