"""Functions `load` and `main` of an emitted file, which load weights and run the network."""

from __future__ import annotations

from archir.backends.input_ranges import ranged_inputs
from archir.ir.graph import Graph
from archir.ir.typing import Types

IMPORTS = ["import json", "import sys", "from pathlib import Path"]
"""Import lines that the functions `load` and `main` need."""

_TYPES = {
    "f32": "torch.float32", "f16": "torch.float16", "bf16": "torch.bfloat16",
    "i64": "torch.int64", "i32": "torch.int32", "bool": "torch.bool",
}  # fmt: skip
"""Torch dtype, as source text, by element type in safetensors files."""

_READ = """
    data = bytearray(Path(path).read_bytes())
    start = 8 + int.from_bytes(data[:8], "little")
    numbers = torch.frombuffer(data, dtype=torch.uint8)[start:]
    dtypes = {
        "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
        "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool,
    }
    weights = {}
    for name, entry in json.loads(data[8:start]).items():
        if name != "__metadata__":
            first, last = entry["data_offsets"]
            weights[name] = numbers[first:last].clone().view(dtypes[entry["dtype"]]).reshape(entry["shape"])
"""
"""Template of the statements that parse a safetensors file into the dict `weights`."""

READER = f'''def weights(path):
    """The tensors of a safetensors file by name."""{_READ}    return weights'''
"""Source of a function that reads the tensors of a safetensors file."""

_LOAD = f'''
def load(path):
    """The network with the weights of a safetensors file."""{_READ}    model = {{NAME}}().eval()
    model.load_state_dict(weights)
    return model
'''
"""Source template of the function `load`."""

_MAIN = '''
def main():
    """Run the network on random numbers, with the weights of a file that is named or beside this one."""
    path = Path(sys.argv[1] if sys.argv[1:] else __file__).with_suffix(".safetensors")
    model = load(path) if sys.argv[1:] or path.exists() else {NAME}().eval()
    torch.manual_seed(0)
    with torch.no_grad():
        {OUTPUT} = model({INPUTS})
{PRINT}


if __name__ == "__main__":
    main()
'''
"""Source template of the function `main`."""


def load_and_main(graph: Graph, types: Types, name: str) -> list[str]:
    """Return the source of the functions `load` and `main` for a network with the given class name."""
    inputs = []
    for kind in ranged_inputs(graph, types).values():
        shape = ", ".join(map(str, (1, *kind.shape)))
        if kind.dtype == "f32":
            inputs.append(f"torch.randn({shape})")
        elif not kind.is_floating:
            cast = "" if kind.dtype == "i64" else f".to({_TYPES[kind.dtype]})"
            inputs.append(f"torch.randint({kind.integer_limit or 2}, ({shape}{',' * (kind.rank == 0)})){cast}")
        else:
            inputs.append(f"torch.randn({shape}).to({_TYPES[kind.dtype]})")
    print_line = '    print(f"{NAME}: {[*VALUE.shape]}, the largest number is at {VALUE.argmax().item()}")'
    if len(graph.outputs) > 1:
        print_line = print_line.replace("VALUE", "output").replace("NAME", "name")
        print_line = f"    for name, output in outputs.items():\n    {print_line}"
    else:
        print_line = print_line.replace("VALUE", "output").replace("{NAME}", next(iter(graph.outputs)))
    output = "outputs" if len(graph.outputs) > 1 else "output"
    fields = {"NAME": name, "INPUTS": ", ".join(inputs), "OUTPUT": output, "PRINT": print_line}
    texts = []
    for text in (_LOAD, _MAIN):
        for key, value in fields.items():
            text = text.replace("{" + key + "}", value)
        texts.append(text.strip())
    return texts
