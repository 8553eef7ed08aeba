"""Mutation tester: change one expression of the code at a time, and report the changes that no test notices.

`mutants.py [--each N] [--seed S] [--output FILE] [--reach FILE] [FILE ...]` samples N mutants of each file and runs the
tests that call the changed function, related and fast ones first, until one fails. A mutant exists in a forked process
only: the code of a function is replaced in memory, and no file changes. `--reach` keeps the record of the functions
that each test calls.
"""

from __future__ import annotations

import argparse
import ast
import copy
import gc
import json
import os
import random
import re
import resource
import signal
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from importlib.abc import InspectLoader
from importlib.util import module_from_spec, spec_from_loader
from itertools import accumulate
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest
from equivalent_mutants import EQUIVALENT

ROOT = Path(__file__).resolve().parent.parent
SOURCES = [
    "archir/passes/**/*.py",
    "archir/equivalence/**/*.py",
    "archir/costs/**/*.py",
    "archir/ops/**/*.py",
    "archir/ir/typing.py",
    "archir/ir/verify.py",
    "backends/archir_onnx/verification/verify.py",
]
"""Files that are mutated, as glob patterns."""
MEASURING = {"machine.py", "timing.py", "measurement.py"}
"""Files of `costs/latencies` that measure times, which are not mutated: their results differ from run to run."""
TESTS = [
    *("ir", "passes", "costs", "ops", "sequences", "library", "onnx_backend/verification", "onnx_backend/lowering"),
    *("torch_backend/lowering/test_lowering.py", "torch_backend/lowering/test_module.py", "search/test_space.py"),
    *("search/test_optimal.py", "search/test_bounds_kept.py", "search/test_bounds_written.py", "search/test_derive.py"),
]
"""Files and folders of the tests that run, below `tests/`."""
RELATED = {
    "archir/passes": ("tests/passes", "tests/ir"),
    "archir/equivalence": ("tests/passes",),
    "archir/costs": ("tests/costs", "tests/search"),
    "archir/ops": ("tests/ops", "tests/torch_backend"),
    "archir/ir": ("tests/ir",),
    "backends": ("tests/onnx_backend",),
}
"""By folder of the code, the folders of tests that run first for its mutants."""
SECONDS = 60
"""Time limit of a mutant, in addition to ten times the duration of its tests without changes: beyond it, the mutant
counts as killed."""

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,), ast.NotIn: (ast.In,),
}  # fmt: skip
"""Replacements of comparison operators."""
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
"""Replacements of arithmetic operators."""
CALLS = {"min": "max", "max": "min", "all": "any", "any": "all", "floor": "ceil", "ceil": "floor"}
"""Replacements of called functions with the same arguments."""
UNARY_CALLS = {"sorted": "list", "abs": "", "reversed": "", "set": "list", "tuple": "sorted"}
"""Replacements of functions of one argument; "" replaces the call by its argument."""

WORK_STATEMENT = "Expr(value=Call(func=Name(id='spend'"
"""Start of the dump of statements that count work. They are not mutated, because the counts change no result."""

Place = tuple[ast.AST, str, int | None]
"""Position of a node: its parent, the field, and the index in the field if that is a list."""


def replacements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that may replace a node, one mutant each."""
    match node:
        case ast.Compare(ops=ops):
            for i, op in enumerate(ops):
                for other in COMPARISONS[type(op)]:
                    changed = copy.deepcopy(node)
                    changed.ops[i] = other()
                    yield changed
        case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC:
            yield ast.BinOp(left, ARITHMETIC[type(op)](), right)
            yield left
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield from (ast.Constant(value + 1), ast.Constant(value - 1))
        case ast.Constant(value=float(value)):
            yield ast.Constant(value * 100 if value else 1.0)
        case ast.BoolOp(op=op, values=values):
            yield ast.BoolOp(ast.And() if isinstance(op, ast.Or) else ast.Or(), values)
            for i in range(len(values)):
                remaining = values[:i] + values[i + 1 :]
                yield ast.BoolOp(op, remaining) if len(remaining) > 1 else remaining[0]
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield operand
        case ast.IfExp(body=body, orelse=orelse):
            yield from (body, orelse)
        case ast.comprehension(ifs=[_, *_]):
            yield ast.comprehension(node.target, node.iter, [], node.is_async)
        case ast.Slice(lower=lower, upper=upper) if lower or upper:
            yield ast.Slice(None if lower else lower, None if upper and not lower else upper, node.step)
        case ast.Call(func=ast.Name(id=name), args=[first, *remaining]) if name in CALLS:
            yield ast.Call(ast.Name(CALLS[name], ast.Load()), node.args, node.keywords)
        case ast.Call(func=ast.Name(id=name), args=[first]) if name in UNARY_CALLS:
            yield ast.Call(ast.Name(UNARY_CALLS[name], ast.Load()), [first], []) if UNARY_CALLS[name] else first
        case ast.Return(value=ast.Call(args=[first, *_])) if not isinstance(first, ast.Starred):
            yield ast.Return(first)
        case ast.If() | ast.While():
            kept = [True, False] if isinstance(node, ast.If) else [False]
            for value in kept:
                changed = copy.copy(node)
                changed.test = ast.Constant(value)
                yield changed
        case (
            ast.Expr(value=ast.Call() | ast.YieldFrom()) | ast.AugAssign() | ast.Raise() | ast.Continue() | ast.Break()
        ):
            yield ast.Pass()
        case ast.Assign(targets=[ast.Subscript() | ast.Attribute()]):
            yield ast.Pass()


def places(node: ast.AST, inside: tuple[str, ...] = (), mutable: bool = False) -> Iterator[tuple[Place, ast.AST, str]]:
    """Yield the nodes of functions and of assigned values of modules, each with its place and the qualified name of its
    function ("" in a module)."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "args", "keywords") and not isinstance(node, ast.Call):
            continue
        for i, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if (
                not isinstance(child, ast.AST)
                or isinstance(child, ast.JoinedStr)
                or ast.dump(child).startswith(WORK_STATEMENT)
            ):
                continue
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                local = (*inside, "<locals>") if isinstance(node, ast.FunctionDef) else inside
                yield from places(child, (*local, child.name), isinstance(child, ast.FunctionDef))
                continue
            if mutable:
                yield (node, name, i), child, ".".join(inside)
            assigned = isinstance(node, ast.Module) and isinstance(child, ast.Assign)
            if not isinstance(child, ast.Raise) and (assigned or not isinstance(node, ast.Module)):
                yield from places(child, inside, mutable or assigned)


def one_line(node: ast.AST) -> str:
    """Return a node as one line of text; of a compound statement, its head."""
    if isinstance(node, ast.Pass):
        return "nothing"
    if isinstance(node, ast.comprehension):
        return ast.unparse(node).strip()
    return ast.unparse(node).strip().splitlines()[0]


class Mutant:
    """A changed expression: its file and place, the old and the new node."""

    def __init__(self, path: str, tree: ast.Module, place: Place, old: ast.AST, new: ast.AST, function: str) -> None:
        self.path, self.tree, self.place, self.old, self.new = path, tree, place, old, new
        self.function, self.outer = function, function.partition(".<locals>")[0]
        self.line = getattr(old, "lineno", getattr(place[0], "lineno", 0))
        self.change = f"{one_line(old)} -> {one_line(new)}"

    @property
    def reason(self) -> str | None:
        """The reason why no test can notice the change; None if a test can."""
        return EQUIVALENT.get((self.path, self.function, self.change))

    def codes(self) -> dict[str, CodeType]:
        """Return the code objects of the changed module's functions by qualified name, and the module's own code under
        ""."""
        parent, field, i = self.place
        new = ast.copy_location(copy.deepcopy(self.new), self.old)
        if i is None:
            setattr(parent, field, new)
        else:
            getattr(parent, field)[i] = new
        try:
            module = compile(ast.fix_missing_locations(copy.deepcopy(self.tree)), str(ROOT / self.path), "exec")
        finally:
            if i is None:
                setattr(parent, field, self.old)
            else:
                getattr(parent, field)[i] = self.old
        return {"": module, **{code.co_qualname: code for code in inner_codes(module)}}


def module_name(path: str) -> str:
    """Return the name of the module in a file."""
    return path.removeprefix("backends/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def inner_codes(code: CodeType) -> Iterator[CodeType]:
    """Yield all code objects inside of a code object."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from inner_codes(constant)


def mutants(path: str) -> list[Mutant]:
    """Return all mutants of a file, in the order of its text."""
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    return [
        Mutant(path, tree, place, old, new, function)
        for place, old, function in places(tree)
        for new in replacements(old)
    ]


class ChangedLoader(InspectLoader):
    """Loader that gives a module changed code."""

    def __init__(self, code: CodeType) -> None:
        self.code = code

    def get_code(self, fullname: str) -> CodeType:
        """Return the changed code."""
        return self.code

    def get_source(self, fullname: str) -> None:
        """Return None: the changed source exists in no file."""


class Tester:
    """A pytest plugin that runs the tests on mutants instead of running them once."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.rows, self.lines = options, [], []
        self.paths = sorted(
            {p.relative_to(ROOT).as_posix() for source in SOURCES for p in ROOT.glob(source) if p.name not in MEASURING}
        )
        self.before = set()
        if options.again:
            lines = Path(options.again).read_text("utf-8").splitlines()
            survivors = [line.removeprefix("survived: ") for line in lines if line.startswith("survived: ")]
            self.before = {re.sub(r":\d+ ", " ", line, count=1) for line in survivors}
        if options.files:
            self.paths = [path for path in self.paths if any(path.startswith(file) for file in options.files)]

    def pytest_collectstart(self) -> None:
        """Set hypothesis not to shrink counterexamples."""
        import hypothesis  # pytest has to load its plugin first

        phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate]
        parent = hypothesis.settings.get_profile("archir")
        hypothesis.settings.register_profile("mutants", parent, phases=phases)
        hypothesis.settings.load_profile("mutants")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Record which tests call which functions, then test mutants."""
        for path in self.paths:
            import_module(module_name(path))  # including modules that tests import late
        gc.unfreeze()
        files = {str(ROOT / path): path for path in self.paths}
        self.functions: dict[tuple[str, str], list[FunctionType]] = defaultdict(list)
        self.caches = []
        mutable = ("archir.passes", "archir.equivalence", "archir.costs", "archir.ops", "archir.ir")
        for thing in gc.get_objects():
            if type(thing) is FunctionType and thing.__code__.co_filename in files:
                self.functions[files[thing.__code__.co_filename], thing.__code__.co_qualname].append(thing)
            elif type(thing).__name__ == "_lru_cache_wrapper" and str(thing.__module__).startswith(mutable):
                self.caches.append(thing)
        gc.freeze()
        self.items = {item.nodeid: item for item in session.items}
        self.reach, self.seconds = self.load_record(session, files)
        for path in self.paths:
            self.test_file(path)
        return True

    def load_record(
        self, session: pytest.Session, files: dict[str, str]
    ) -> tuple[dict[str, list[str]], dict[str, float]]:
        """Return the tests that call each function, and the duration of each test, from the record or by running all
        tests."""
        kept = Path(self.options.reach or tempfile.mktemp())
        if not kept.exists():
            self.run_forked(lambda: self.record_calls(session, files, kept), 3600)
        reach, seconds = json.loads(kept.read_text())
        return reach, {name: took for name, took in seconds.items() if name in self.items}

    def record_calls(self, session: pytest.Session, files: dict[str, str], kept: Path) -> bool:
        """Run all tests once, and write the record of the functions that each calls."""
        reach, seconds = defaultdict(list), {}
        called: set[CodeType] = set()

        def trace(frame: Any, event: str, arg: object) -> None:
            if frame.f_code.co_filename in files:
                called.add(frame.f_code)

        for item in session.items:
            called.clear()
            began, failed = time.process_time(), session.testsfailed
            threading.settrace(trace)
            sys.settrace(trace)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            sys.settrace(None)
            if session.testsfailed == failed:
                seconds[item.nodeid] = time.process_time() - began
                for code in called:
                    reach[f"{files[code.co_filename]}:{code.co_qualname}"].append(item.nodeid)
        kept.write_text(json.dumps([reach, seconds]))
        return True

    def test_file(self, path: str) -> None:
        """Sample mutants of a file, test them, and print the outcome of each."""
        candidates = mutants(path)
        sample = random.Random(f"{self.options.seed}:{path}").sample(
            candidates, min(len(candidates), self.options.each)
        )
        if self.options.again:
            sample = [mutant for mutant in candidates if f"{path} {mutant.function}: {mutant.change}" in self.before]
        count = {"killed": 0, "survived": 0, "equivalent": 0}
        for mutant in sorted(sample, key=lambda mutant: mutant.line):
            if mutant.reason is not None and not self.options.all:
                outcome = "equivalent"
            else:
                killer = self.is_killed(mutant)
                if killer is None:
                    continue
                outcome = "killed" if killer else "survived"
            count[outcome] += 1
            line = f"{outcome}: {path}:{mutant.line} {mutant.function}: {mutant.change}"
            print(line, flush=True)
            if outcome != "killed":
                self.lines.append(line + (f"  ({mutant.reason})" if mutant.reason else ""))
        if candidates:
            self.rows.append((path, len(candidates), *count.values()))

    def is_killed(self, mutant: Mutant) -> bool | None:
        """Return whether a test notices a mutant; None if its code cannot be compiled."""
        names = self.reach.get(f"{mutant.path}:{mutant.function}", []) if mutant.function else self.seconds
        names = self.ordered_tests(mutant.path, names)
        try:
            codes = mutant.codes()
        except (SyntaxError, ValueError):
            return None
        limit = SECONDS + 10 * sum(self.seconds[name] for name in names)
        return self.run_forked(lambda: self.run_tests(mutant, codes, names), limit)

    def ordered_tests(self, path: str, names: Iterable[str]) -> list[str]:
        """Return the tests for a file's mutants within the time limit, those in related folders first, then by the
        total duration of their test function."""
        near = next(folders for folder, folders in RELATED.items() if path.startswith(folder))
        sums: Counter[str] = Counter()
        ranked = []
        for name in sorted((name for name in names if name in self.seconds), key=self.seconds.__getitem__):
            sums[name.partition("[")[0]] += self.seconds[name]
            ranked.append((not name.startswith(near), sums[name.partition("[")[0]], name))
        ordered = [name for *_, name in sorted(ranked)]
        cumulative = accumulate(self.seconds[name] for name in ordered)
        return [name for name, total in zip(ordered, cumulative, strict=True) if total <= self.options.seconds]

    def run_tests(self, mutant: Mutant, codes: dict[str, CodeType], names: list[str]) -> bool:
        """Put a mutant in place, and run its tests until one fails."""
        if mutant.function:
            for function in self.functions[mutant.path, mutant.outer]:
                function.__code__ = codes[mutant.outer]
        else:
            self.rebind(mutant, codes[""])
        for cache in self.caches:
            cache.cache_clear()
        for name, then in zip(names, [*names[1:], None], strict=True):
            item, following = self.items[name], self.items.get(then)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if item.session.testsfailed:
                return True
        return False

    def rebind(self, mutant: Mutant, code: CodeType) -> None:
        """Execute the changed module, and give its changed constants to all modules that import them."""
        name = module_name(mutant.path)
        loader = ChangedLoader(code)
        fresh = module_from_spec(spec_from_loader(name, loader))
        loader.exec_module(fresh)
        (statement,) = [node for node in mutant.tree.body if node.lineno <= mutant.line <= node.end_lineno]
        for key in [target.id for target in statement.targets if isinstance(target, ast.Name)]:
            before = vars(sys.modules[name])[key]
            for other in [module for other, module in sys.modules.items() if other.startswith("archir")]:
                if vars(other).get(key) is before:
                    setattr(other, key, vars(fresh)[key])

    def run_forked(self, work: Callable[[], bool], limit: float) -> bool:
        """Return the result of `work` in a forked process; True if the process crashes or exceeds `limit` seconds."""
        child = os.fork()
        if child == 0:
            code = 1
            with suppress(BaseException):
                os.setsid()
                resource.setrlimit(resource.RLIMIT_AS, (32 << 30, 32 << 30))
                null = os.open(os.devnull, os.O_RDWR)
                for stream in (0, 1, 2):
                    os.dup2(null, stream)
                code = int(work())
            os._exit(code)
        deadline = time.monotonic() + limit
        while (done := os.waitpid(child, os.WNOHANG)) == (0, 0):
            if time.monotonic() > deadline:
                os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return True
            time.sleep(0.01)
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        return os.waitstatus_to_exitcode(done[1]) != 0

    def table(self) -> str:
        """Return a table of the mutants of each file, and the list of those that no test killed."""
        head = ("file", "mutants", "tried", "killed", "survived", "equivalent")
        rows = [(path, every, sum(fates), *fates) for path, every, *fates in self.rows]
        rows.append(("all", *map(sum, zip(*[row[1:] for row in rows], strict=True))))
        text = "".join(f"{row[0]:<50}" + "".join(f"{cell:>12}" for cell in row[1:]) + "\n" for row in [head, *rows])
        title = f"Mutants of each file: {self.options.each} at most, seed {self.options.seed}\n\n"
        return title + text + "\n" + "\n".join(self.lines) + "\n"


def main() -> None:
    """Test mutants, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("files", nargs="*", help="files or folders of the code [all]")
    parser.add_argument("--each", type=int, default=10, help="mutants of each file")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--again", help="a table of an earlier run: test only the mutants that survived there")
    parser.add_argument("--all", action="store_true", help="test equivalent mutants as well")
    parser.add_argument("--seconds", type=float, default=60.0, help="duration limit of the tests of each mutant")
    parser.add_argument("--reach", help="file of the record of functions that each test calls; written if missing")
    parser.add_argument("--tests", nargs="+", default=[f"tests/{name}" for name in TESTS])
    parser.add_argument("--output", help="file of the table")
    options = parser.parse_args()
    tester = Tester(options)
    os.chdir(ROOT)
    with tempfile.TemporaryDirectory() as base:
        quiet = ["-qq", "-s", "-p", "no:cacheprovider", "--timeout=0", f"--basetemp={base}/tests"]
        pytest.main([*quiet, *options.tests], plugins=[tester])
    text = tester.table()
    print(text)
    if options.output:
        Path(options.output).write_text(text, "utf-8")


if __name__ == "__main__":
    main()
