"""Mutation tester: change one expression of the code at a time, and report the changes that no test notices.

`mutants.py [--each N] [--seed S] [--output FILE] [--reach FILE] [FILE ...]` draws N mutants of each file. The tests
that call the changed function judge it, near and fast ones first, until one fails. A mutant exists in a forked process
only: the code of a function is replaced in memory, and no file changes. `--reach` keeps which test calls what.
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
TIMED = {"machine.py", "timing.py", "fill.py"}
"""Files of `costs/latencies` that measure: their results differ from run to run."""
TESTS = [
    *("ir", "passes", "costs", "ops", "sequences", "library", "onnx_backend/verification", "onnx_backend/lowering"),
    *("torch_backend/lowering/test_lowering.py", "torch_backend/lowering/test_module.py", "search/test_space.py"),
    *("search/test_optimal.py", "search/test_bounds_kept.py", "search/test_bounds_written.py", "search/test_derive.py"),
]
NEAR = {
    "archir/passes": ("tests/passes", "tests/ir"),
    "archir/equivalence": ("tests/passes",),
    "archir/costs": ("tests/costs", "tests/search"),
    "archir/ops": ("tests/ops", "tests/torch_backend"),
    "archir/ir": ("tests/ir",),
    "backends": ("tests/onnx_backend",),
}
"""Folders of tests that judge a folder of code before all others do."""
SECONDS = 60
"""Beyond ten times what its tests take unchanged, a mutant that runs longer than this counts as killed."""

COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,), ast.NotIn: (ast.In,),
}  # fmt: skip
COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
CALLED = {"min": "max", "max": "min", "all": "any", "any": "all", "floor": "ceil", "ceil": "floor"}
DROPPED = {"sorted": "list", "abs": "", "reversed": "", "set": "list", "tuple": "sorted"}
"""Calls and what is called instead; nothing where their argument stands for them."""

SPENT = "Expr(value=Call(func=Name(id='spend'"
"""Statements that count work: how much is counted changes no result."""

Place = tuple[ast.AST, str, int | None]


def replacements(node: ast.AST) -> Iterator[ast.AST]:
    """What a node is replaced by, one mutant each."""
    match node:
        case ast.Compare(ops=ops):
            for i, op in enumerate(ops):
                for other in COMPARED[type(op)]:
                    changed = copy.deepcopy(node)
                    changed.ops[i] = other()
                    yield changed
        case ast.BinOp(left=left, op=op, right=right) if type(op) in COMPUTED:
            yield ast.BinOp(left, COMPUTED[type(op)](), right)
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
                rest = values[:i] + values[i + 1 :]
                yield ast.BoolOp(op, rest) if len(rest) > 1 else rest[0]
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield operand
        case ast.IfExp(body=body, orelse=orelse):
            yield from (body, orelse)
        case ast.comprehension(ifs=[_, *_]):
            yield ast.comprehension(node.target, node.iter, [], node.is_async)
        case ast.Slice(lower=lower, upper=upper) if lower or upper:
            yield ast.Slice(None if lower else lower, None if upper and not lower else upper, node.step)
        case ast.Call(func=ast.Name(id=name), args=[first, *rest]) if name in CALLED:
            yield ast.Call(ast.Name(CALLED[name], ast.Load()), node.args, node.keywords)
        case ast.Call(func=ast.Name(id=name), args=[first]) if name in DROPPED:
            yield ast.Call(ast.Name(DROPPED[name], ast.Load()), [first], []) if DROPPED[name] else first
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


def places(node: ast.AST, inside: tuple[str, ...] = (), judged: bool = False) -> Iterator[tuple[Place, ast.AST, str]]:
    """All nodes of functions and of values that modules assign, and the qualified name of the function, or nothing."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "args", "keywords") and not isinstance(node, ast.Call):
            continue
        for i, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.JoinedStr) or ast.dump(child).startswith(SPENT):
                continue
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                local = (*inside, "<locals>") if isinstance(node, ast.FunctionDef) else inside
                yield from places(child, (*local, child.name), isinstance(child, ast.FunctionDef))
                continue
            if judged:
                yield (node, name, i), child, ".".join(inside)
            assigned = isinstance(node, ast.Module) and isinstance(child, ast.Assign)
            if not isinstance(child, ast.Raise) and (assigned or not isinstance(node, ast.Module)):
                yield from places(child, inside, judged or assigned)


def shown(node: ast.AST) -> str:
    """A node in one line; the head of a compound statement."""
    if isinstance(node, ast.Pass):
        return "nothing"
    if isinstance(node, ast.comprehension):
        return ast.unparse(node).strip()
    return ast.unparse(node).strip().splitlines()[0]


class Mutant:
    """One changed expression: what was there, what is there now, and how to make the code."""

    def __init__(self, path: str, tree: ast.Module, place: Place, old: ast.AST, new: ast.AST, function: str) -> None:
        self.path, self.tree, self.place, self.old, self.new = path, tree, place, old, new
        self.function, self.outer = function, function.partition(".<locals>")[0]
        self.line = getattr(old, "lineno", getattr(place[0], "lineno", 0))
        self.change = f"{shown(old)} -> {shown(new)}"

    @property
    def reason(self) -> str | None:
        """Why no test can notice the change; None if one can."""
        return EQUIVALENT.get((self.path, self.function, self.change))

    def codes(self) -> dict[str, CodeType]:
        """The changed module's functions by qualified name, and the module's own code under ''."""
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
        return {"": module, **{code.co_qualname: code for code in inner(module)}}


def module_name(path: str) -> str:
    """The module of a file."""
    return path.removeprefix("backends/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def inner(code: CodeType) -> Iterator[CodeType]:
    """All code objects inside of one."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from inner(constant)


def mutants(path: str) -> list[Mutant]:
    """All mutants of a file, in the order of its text."""
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    return [
        Mutant(path, tree, place, old, new, function)
        for place, old, function in places(tree)
        for new in replacements(old)
    ]


class Changed(InspectLoader):
    """A module's changed code."""

    def __init__(self, code: CodeType) -> None:
        self.code = code

    def get_code(self, fullname: str) -> CodeType:
        """The code."""
        return self.code

    def get_source(self, fullname: str) -> None:
        """None: the text is not written anywhere."""


class Tester:
    """A plugin of pytest that judges mutants in place of running the tests once."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.rows, self.lines = options, [], []
        self.paths = sorted(
            {p.relative_to(ROOT).as_posix() for source in SOURCES for p in ROOT.glob(source) if p.name not in TIMED}
        )
        self.before = set()
        if options.again:
            lines = Path(options.again).read_text("utf-8").splitlines()
            survivors = [line.removeprefix("survived: ") for line in lines if line.startswith("survived: ")]
            self.before = {re.sub(r":\d+ ", " ", line, count=1) for line in survivors}
        if options.files:
            self.paths = [path for path in self.paths if any(path.startswith(file) for file in options.files)]

    def pytest_collectstart(self) -> None:
        """Counterexamples are not made smaller."""
        import hypothesis  # pytest looks at it first

        phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate]
        parent = hypothesis.settings.get_profile("archir")
        hypothesis.settings.register_profile("mutants", parent, phases=phases)
        hypothesis.settings.load_profile("mutants")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Record which tests call what, then judge mutants."""
        for path in self.paths:
            import_module(module_name(path))  # also what tests import late
        gc.unfreeze()
        files = {str(ROOT / path): path for path in self.paths}
        self.functions: dict[tuple[str, str], list[FunctionType]] = defaultdict(list)
        self.caches = []
        judged = ("archir.passes", "archir.equivalence", "archir.costs", "archir.ops", "archir.ir")
        for thing in gc.get_objects():
            if type(thing) is FunctionType and thing.__code__.co_filename in files:
                self.functions[files[thing.__code__.co_filename], thing.__code__.co_qualname].append(thing)
            elif type(thing).__name__ == "_lru_cache_wrapper" and str(thing.__module__).startswith(judged):
                self.caches.append(thing)
        gc.freeze()
        self.items = {item.nodeid: item for item in session.items}
        self.reach, self.seconds = self.recorded(session, files)
        for path in self.paths:
            self.judge_file(path)
        return True

    def recorded(self, session: pytest.Session, files: dict[str, str]) -> tuple[dict[str, list[str]], dict[str, float]]:
        """The tests that call each function, and how long each takes."""
        kept = Path(self.options.reach or tempfile.mktemp())
        if not kept.exists():
            self.forked(lambda: self.record(session, files, kept), 3600)
        reach, seconds = json.loads(kept.read_text())
        return reach, {name: took for name, took in seconds.items() if name in self.items}

    def record(self, session: pytest.Session, files: dict[str, str], kept: Path) -> bool:
        """Run all tests once, and write which calls what."""
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

    def judge_file(self, path: str) -> None:
        """Draw mutants of a file and judge them."""
        every = mutants(path)
        drawn = random.Random(f"{self.options.seed}:{path}").sample(every, min(len(every), self.options.each))
        if self.options.again:
            drawn = [mutant for mutant in every if f"{path} {mutant.function}: {mutant.change}" in self.before]
        count = {"killed": 0, "survived": 0, "equivalent": 0}
        for mutant in sorted(drawn, key=lambda one: one.line):
            if mutant.reason is not None and not self.options.all:
                fate = "equivalent"
            else:
                killer = self.judge(mutant)
                if killer is None:
                    continue
                fate = "killed" if killer else "survived"
            count[fate] += 1
            line = f"{fate}: {path}:{mutant.line} {mutant.function}: {mutant.change}"
            print(line, flush=True)
            if fate != "killed":
                self.lines.append(line + (f"  ({mutant.reason})" if mutant.reason else ""))
        if every:
            self.rows.append((path, len(every), *count.values()))

    def judge(self, mutant: Mutant) -> bool | None:
        """Whether a test notices a mutant; None if it cannot be put in place."""
        names = self.reach.get(f"{mutant.path}:{mutant.function}", []) if mutant.function else self.seconds
        names = self.order(mutant.path, names)
        try:
            codes = mutant.codes()
        except (SyntaxError, ValueError):
            return None
        limit = SECONDS + 10 * sum(self.seconds[name] for name in names)
        return self.forked(lambda: self.noticed(mutant, codes, names), limit)

    def order(self, path: str, names: Iterable[str]) -> list[str]:
        """Tests, near ones first, those of each function one by one; as many as the time allows."""
        near = next(folders for folder, folders in NEAR.items() if path.startswith(folder))
        sums: Counter[str] = Counter()
        ranked = []
        for name in sorted((name for name in names if name in self.seconds), key=self.seconds.__getitem__):
            sums[name.partition("[")[0]] += self.seconds[name]
            ranked.append((not name.startswith(near), sums[name.partition("[")[0]], name))
        ordered = [name for *_, name in sorted(ranked)]
        whole = accumulate(self.seconds[name] for name in ordered)
        return [name for name, total in zip(ordered, whole, strict=True) if total <= self.options.seconds]

    def noticed(self, mutant: Mutant, codes: dict[str, CodeType], names: list[str]) -> bool:
        """Put a mutant in place and run its tests until one fails."""
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
        """Run the changed module anew, and give its changed constants to all modules that have them."""
        name = module_name(mutant.path)
        loader = Changed(code)
        fresh = module_from_spec(spec_from_loader(name, loader))
        loader.exec_module(fresh)
        (statement,) = [one for one in mutant.tree.body if one.lineno <= mutant.line <= one.end_lineno]
        for key in [target.id for target in statement.targets if isinstance(target, ast.Name)]:
            before = vars(sys.modules[name])[key]
            for other in [module for other, module in sys.modules.items() if other.startswith("archir")]:
                if vars(other).get(key) is before:
                    setattr(other, key, vars(fresh)[key])

    def forked(self, work: Callable[[], bool], limit: float) -> bool:
        """The answer of work in a process of its own; True if it crashed or did not end in time."""
        child = os.fork()
        if child == 0:
            code = 1
            with suppress(BaseException):
                os.setsid()
                resource.setrlimit(resource.RLIMIT_AS, (32 << 30, 32 << 30))
                silent = os.open(os.devnull, os.O_RDWR)
                for stream in (0, 1, 2):
                    os.dup2(silent, stream)
                code = int(work())
            os._exit(code)
        ends = time.monotonic() + limit
        while (done := os.waitpid(child, os.WNOHANG)) == (0, 0):
            if time.monotonic() > ends:
                os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return True
            time.sleep(0.01)
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        return os.waitstatus_to_exitcode(done[1]) != 0

    def table(self) -> str:
        """Mutants by file, then those that no test killed."""
        head = ("file", "mutants", "tried", "killed", "survived", "equivalent")
        rows = [(path, every, sum(fates), *fates) for path, every, *fates in self.rows]
        rows.append(("all", *map(sum, zip(*[row[1:] for row in rows], strict=True))))
        text = "".join(f"{row[0]:<50}" + "".join(f"{cell:>12}" for cell in row[1:]) + "\n" for row in [head, *rows])
        said = f"Mutants of each file: {self.options.each} at most, seed {self.options.seed}\n\n"
        return said + text + "\n" + "\n".join(self.lines) + "\n"


def main() -> None:
    """Judge mutants, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("files", nargs="*", help="files or folders of the code; all that are judged by default")
    parser.add_argument("--each", type=int, default=10, help="mutants of each file")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--again", help="a table: judge the mutants that survived there")
    parser.add_argument("--all", action="store_true", help="judge also those that are named as equivalent")
    parser.add_argument("--seconds", type=float, default=60.0, help="of tests for each mutant, at most")
    parser.add_argument("--reach", help="file with the record of which test calls what; written if it is not there")
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
