"""The commands in the groups of `archir --help`: modules and summaries, without an import of the modules."""

from __future__ import annotations

COMMAND_GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "Write a space": {
        "new": ("new", "Create a project: a space, a recipe, data, a test and a README."),
        "check": ("check", "Check that every architecture is valid."),
        "fmt": ("fmt", "Format .arch files, or list those that are not formatted."),
        "show": ("show", "Show the graph of a net, as text or as a picture."),
        "print": ("printing", "Print the value of an expression inside a net."),
        "explain": ("explain", "Explain a diagnostic code, an operation, a block or a keyword."),
    },
    "Examine a space": {
        "cost": ("cost", "Show parameters, multiply-accumulates and other costs."),
        "count": ("count_sample", "Count the architectures exactly."),
        "sample": ("count_sample", "Sample architectures uniformly."),
        "optimize": ("optimize", "Find the best architecture within cost bounds, with a proof."),
        "diff": ("diff", "Compare two architectures, or two spaces."),
    },
    "Search and train": {
        "search": ("search", "Run an architecture search from a recipe."),
        "train": ("train", "Train one network on a data set."),
        "runs": ("runs_list", "List runs with progress, scores and an integrity check."),
        "compare": ("compare", "Compare runs: their settings and their results."),
        "study": ("study", "Compare search strategies, or variants of a recipe."),
        "scores": ("scores", "Compute additive scores of alternatives from trials, costs, ..."),
    },
    "Reuse trained networks": {
        "import": ("importing", "Convert a torch module or an ONNX model to an .arch program."),
        "open": ("open_net", "Turn a network into a space: its numbers become choices."),
        "shrink": ("shrink", "Shrink a trained network to a budget, reusing its weights."),
        "specialize": ("specialize", "Derive a network for each of several budgets from a supernet."),
    },
    "Ship a network": {
        "export": ("export", "Export a trained network to ONNX or PyTorch, and verify it."),
        "compile": ("compile", "Compile an .arch program to ONNX, PyTorch code or a package."),
        "quantize": ("quantize", "Quantize an ONNX model to int8 and report the error."),
        "bench": ("bench", "Benchmark networks side by side."),
        "latency": ("latency", "Predict the latency of all architectures of a space."),
        "verify": ("verify", "Verify that a model file matches its certificate."),
    },
    "Editors and installation": {
        "studio": ("studio", "Edit a space in the browser, with errors, picture and counts."),
        "doctor": ("doctor", "Report versions, devices, plugins and problems."),
        "lsp": ("lsp", "Run the language server for editors."),
        "mcp": ("mcp", "Run an MCP server for agents that write spaces."),
        "grammar": ("grammar", "Write the language's grammar, for constrained decoding."),
        "completion": ("completion", "Print the shell completion script."),
    },
}
"""Module and summary of each command by name, by group; in both, what is used most comes first."""
COMMANDS = {name: command for group in COMMAND_GROUPS.values() for name, command in group.items()}
"""Module and summary of each command, by name."""
