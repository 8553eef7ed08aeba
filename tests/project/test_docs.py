"""Programs, commands, Python snippets, figures and generated pages of the documentation are correct."""

from __future__ import annotations

import inspect
import json
import re
import shlex
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import get_args

import click
import pytest
from bs4 import BeautifulSoup, Tag
from pydantic import BaseModel

import archir
from archir.api import loading
from archir.cli import main
from archir.cli.compile import compile_command
from archir.cli.export import export_command
from archir.diagnostics.errors import ArchError
from archir.diagnostics.explain import codes, page
from archir.diagnostics.work import MAX_WORK
from archir.diagrams.diagram import MAX_OUTCOMES
from archir.language.elaboration.context import MAX_CALL_DEPTH, Limits
from archir.language.elaboration.lists import MAX_ITERATIONS
from archir.language.elaboration.parameters import parse_parameter
from archir.language.elaboration.static import FOLDS, FUNCTIONS
from archir.language.elaboration.values import MAX_BITS, MAX_ITEMS
from archir.language.syntax.parse import MAX_BYTES
from archir.recipes.parsing import parse
from archir.recipes.recipe import Recipe
from archir.search import registry
from archir.utils.settings import parse_settings
from archir_torch.objectives.create import check_settings as check_objective
from archir_torch.search.job import STRATEGIES, kind_of
from docs import generate
from tests.chromium import PROGRAM, Chromium
from tests.conftest import ROOT
from tests.contrast import LOW_CONTRAST
from tests.documents import DOCUMENTS, Snippet, commands, execute, run_python, snippets, unpack
from tests.examples import elaborate_once
from tests.plugins import forgotten
from tests.project.conftest import sphinx
from tests.service import running
from tests.soak import with_soak

SLOW = {
    "archir count examples/grammar/grammar.arch -p depth=3",
    "archir count examples/nas_bench_101/nas_bench_101.arch",
    "archir count examples/nas_bench_201/nas_bench_201.arch --unique",
    "archir count examples/nas_fpn/nas_fpn.arch",
    'archir count examples/glit/glit.arch --where "macs >= 1372M and macs <= 1428M"',
    'archir count examples/glit/glit.arch -p width=384 -p heads=6 --where "macs >= 4312M and macs <= 4488M"',
    'archir count examples/trionet/trionet.arch --where "macs >= 1470M and macs <= 1530M"',
    'archir count examples/trionet/trionet.arch --where "macs >= 1960M and macs <= 2040M"',
    'archir count examples/trionet/trionet.arch --where "macs >= 2303M and macs <= 2397M"',
    'archir count examples/trionet/trionet.arch --where "macs >= 980M and macs <= 1020M"',
    "archir bench tiny.arch net.onnx --on torch --on onnxruntime-cpu --batch 1 --batch 8 --threads 1 --seconds 0.1",
    "archir compile examples/autola/imagenet.arch --arch examples/autola/hoga_paper.json -p summary=groups "
    "--block hoga --to torch -o hoga.py",
    "archir cost examples/nas_bench_101/nas_bench_101.arch --arch examples/nas_bench_101/inception_like.json",
    "archir cost examples/nas_bert/nas_bert.arch",
    "archir cost examples/nas_fpn/nas_fpn.arch --arch examples/nas_fpn/found.json",
    "archir sample examples/llama/llama3.arch "
    '--where "kv_bytes(context=128K) <= 0.5x and decode_macs(context=4096) <= 5G"',
    "archir export run -o net.pt2",
    "archir grammar --to recipe-schema -o recipe.schema.json",
    "archir search shrinking.toml -o runs/shrinking",
    'archir specialize runs/shrinking:widths --where "macs <= 0.5x" --where "params <= 0.6x and macs <= 4M" --trials 4 '
    "-o runs/small",
    "archir verify net.pt2",
}
"""Commands of several seconds, of which pages have shorter ones of the same kind; the soak runs all."""
_MEASURED = (
    "archir search tiny.toml --set search.training.epochs=60 --set search.training.compile=auto -o runs/measured"
)
SHORTENED = {
    _MEASURED: f"{_MEASURED} --set data.limit=96",
}
"""Commands that others go on from: the suite gives them fewer images."""
SLOW_PAGES = {"docs/index.md", "docs/model.md", "docs/research.md", "docs/shrink.md"}
"""Pages whose commands train again and again: the soak runs them. The README has those of the first page."""
SLOW_PROGRAMS = {
    "docs/index.md",
    "docs/model.md",
    "docs/data.md",
    "docs/mixtures.md",
    "docs/search.md",
    "docs/serve.md",
    "docs/supernets.md",
}
"""Pages whose Python trains, as that of docs/objectives.md, and the first page, whose Python the README has."""


@pytest.fixture(autouse=True)
def _once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many commands are about few spaces."""
    monkeypatch.setattr("archir.api.loading.elaborate", elaborate_once)


@pytest.fixture(autouse=True)
def _without_plugins(tmp_path: Path) -> Iterator[None]:
    """What the plugins of one page register is not known to others."""
    with forgotten(tmp_path):
        yield


def named(value: object) -> str:
    return str(value.relative_to(ROOT)) if isinstance(value, Path) else ""


PROGRAMS = [(path, program) for path in DOCUMENTS for program in snippets(path, "arch")]


@pytest.mark.parametrize(("path", "program"), PROGRAMS, ids=named)
def test_documented_programs_elaborate(path: Path, program: Snippet, tmp_path: Path) -> None:
    unpack(path, tmp_path)
    file = tmp_path / (program.file or "snippet.arch")
    file.write_text(program.text)
    for name in program.plugins:
        archir.plugin(name, folder=tmp_path)
    if "wrong" in program.words:
        with pytest.raises(ArchError):
            loading.graphs(file)
    else:
        loading.graphs(file)
        assert loading.format(program.text) == program.text


PARTS = [(path, part) for path in DOCUMENTS for part in snippets(path, "toml") if "part" in part.words]


@pytest.mark.parametrize(("path", "part"), PARTS, ids=named)
def test_documented_recipe_parts_are_valid(path: Path, part: Snippet) -> None:
    """They are part of a recipe that is right: its settings are, and those of its strategies and objectives."""
    only = "" if "[[phase]]" in part.text else '[[phase]]\nname = "only"\nstrategy = "train"\n'
    space = "" if re.search("^space =", part.text) else 'space = "tiny.arch"\n'
    for phase in parse(space + part.text + only).recipe.phase:
        parse_settings(kind_of(phase).options, phase.options)
        for objective in (phase.objective, *phase.also):
            check_objective(objective, "", lambda _: None)


PAGES = [path for path in DOCUMENTS if snippets(path, "console")]


RUNS = [
    pytest.param(path, slow, marks=[pytest.mark.soak] * slow, id=f"{named(path)}-{'slow' if slow else 'quick'}")
    for path in PAGES
    for slow in (False, True)
    if slow or named(path) not in SLOW_PAGES
]


@pytest.mark.parametrize(("path", "slow"), RUNS)
def test_documented_commands_print_shown_output(
    path: Path, slow: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpack(path, tmp_path)
    monkeypatch.chdir(tmp_path)
    # examples whose tests ran in this process have modules of the same names
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if not entry.startswith(str(ROOT / "examples"))])
    for module in tmp_path.glob("*.py"):
        monkeypatch.delitem(sys.modules, module.stem, raising=False)
    for command, shown in commands(path):
        if slow or command not in SLOW:
            execute(command if slow else SHORTENED.get(command, command), shown)


def test_own_model_becomes_a_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands of a section that do not measure; the soak runs all of the page. The service takes seconds."""
    page = ROOT / "docs" / "model.md"
    unpack(page, tmp_path)
    monkeypatch.chdir(tmp_path)
    for command, shown in commands(page):
        if "vehicles" in command and command.split()[1] in ("import", "compile", "quantize"):
            execute(f"{command} --seconds 0" if "quantize" in command else command, shown)
    (curl,) = (snippet.text for snippet in snippets(page, "sh") if snippet.text.startswith("curl"))
    arguments = shlex.split(curl)
    photo = tmp_path / next(word[1:] for word in arguments if word.startswith("@"))
    with running(tmp_path / "vehicles.int8.onnx", tmp_path) as service:
        kind = next(word.partition(": ")[2] for word in arguments if word.startswith("content-type"))
        assert service.ask(body=photo.read_bytes(), kind=kind).json["classes"][0]["label"] == "car"


@pytest.mark.parametrize("path", PAGES, ids=named)
def test_documented_commands_start_with_archir(path: Path) -> None:
    """Also on the pages that the soak alone runs."""
    for command, _ in commands(path):
        assert shlex.split(command)[0] == "archir", command


def test_slow_commands_are_in_the_documentation() -> None:
    assert {command for path in PAGES for command, _ in commands(path)} >= SLOW | SHORTENED.keys()


PROGRAMMED = [path for path in DOCUMENTS if snippets(path, "python")]


@pytest.mark.parametrize(
    "path",
    with_soak(PROGRAMMED, [path for path in PROGRAMMED if named(path) not in SLOW_PROGRAMS]),
    ids=named,
)
@pytest.mark.parametrize("fresh", [pytest.param(True, marks=pytest.mark.soak, id="fresh"), pytest.param(False, id="")])
def test_documented_python_runs(path: Path, fresh: bool, tmp_path: Path) -> None:
    unpack(path, tmp_path)
    run_python(path, tmp_path, fresh)


OF_ALL_SPACES = {"docs/examples.md"}
"""The page with the sizes of all published spaces, which `tests/published/test_spaces.py` looks at."""


@pytest.mark.parametrize("name", with_soak(generate.PAGES, generate.PAGES.keys() - OF_ALL_SPACES))
def test_generated_pages_are_up_to_date(name: str) -> None:
    found = (ROOT / name).read_text("utf-8")
    assert found == generate.updated(name), "run python docs/generate.py"


def test_every_block_of_the_library_is_described() -> None:
    silent = re.findall(r"^`(\w+)\(.*\)`\n\n\n", generate.library(), re.MULTILINE)
    assert not silent, "no comment stands above them"


def settings(kind: type[BaseModel]) -> Iterator[str]:
    """The names of settings, and of those that they hold."""
    for name, field in kind.model_fields.items():
        yield name
        for one in (field.annotation, *get_args(field.annotation)):
            if isinstance(one, type) and issubclass(one, BaseModel):
                yield from settings(one)


@pytest.mark.parametrize("name", ["recipe", *STRATEGIES])
def test_every_setting_of_a_recipe_is_explained(name: str) -> None:
    text = "".join((ROOT / "docs" / f"{page}.md").read_text("utf-8") for page in ("search", "multi", "supernets"))
    kind = Recipe if name == "recipe" else STRATEGIES[name].options
    assert {one for one in settings(kind) if f"`{one}`" not in text} <= {"phase"}


def test_every_strategy_is_listed() -> None:
    table = (ROOT / "docs" / "search.md").read_text("utf-8").partition("\n## Strategies\n")[2].partition("\n## ")[0]
    assert [name for name in STRATEGIES if f"`{name}`" not in table] == []
    assert [name for name in STRATEGIES if f"`{name}`" not in page("A2202")] == []
    assert [name for name in registry.STRATEGIES if f"`{name}`" not in page("A2504")] == []


def test_index_entry_links_lead_to_pages_with_commands() -> None:
    first = (ROOT / "docs" / "index.md").read_text("utf-8")
    doors = re.findall(r"\*\*\[.*\]\((.*)\)\*\*", first)
    assert len(doors) == 3
    assert all(list(commands(ROOT / "docs" / door)) for door in doors)


def test_index_picture_matches_its_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = ROOT / "docs" / "index.md"
    unpack(index, tmp_path)
    monkeypatch.chdir(tmp_path)
    (drawn,) = ((command, shown) for command, shown in commands(index) if command.startswith("archir show"))
    execute(*drawn)
    assert (tmp_path / "layer.svg").read_bytes() == (ROOT / "docs" / "pictures" / "choice.svg").read_bytes()


def test_every_code_and_every_command_is_listed() -> None:
    listed, commands = generate.diagnostics(), generate.command_line()
    assert [code for code in codes() if f"{code}.md" not in listed] == []
    assert [name for name in main.list_commands(click.Context(main)) if f"`archir {name}`" not in commands] == []


def test_export_options_are_those_of_the_commands_and_of_the_function() -> None:
    text = " ".join((ROOT / "docs" / "deployment.md").read_text("utf-8").partition("## Export to ONNX")[2].split())
    rows = text.partition("| option |")[2].partition("`archir compile")[0]
    listed = {flag for cell in re.findall(r"\| (`--[^|]*) \|", rows) for flag in re.findall(r"`(--[a-z0-9-]+)", cell)}
    export, compiled = (
        {flag: one.name for one in command.params for flag in one.opts} for command in (export_command, compile_command)
    )
    exceptions = text.partition("has the same options, except for ")[2].partition(", for networks")[0]
    assert listed - compiled.keys() == {*re.findall("`(.*?)`", exceptions)}
    names = text.partition("The options of the command have these names: ")[2].partition(" For `--labels`")[0]
    of_function = {export[flag] for flag in listed} & {*inspect.signature(archir.export).parameters}
    assert of_function <= {*re.findall(r"`(\w+)`", names)}


@pytest.mark.parametrize("path", DOCUMENTS, ids=named)
def test_commands_in_sentences_exist(path: Path) -> None:
    """Those in snippets are run."""
    group = click.Context(main)
    for name, rest in re.findall(r"`archir ([a-z]+)\b([^`]*)`", path.read_text("utf-8")):
        command = main.get_command(group, name)
        assert command is not None or (path.stem, name) == ("packages", "man"), name
        if isinstance(command, click.Group) and rest.split()[:1]:
            command = command.commands[rest.split()[0]]
        options = (
            {option for parameter in command.params for option in parameter.opts} if command is not None else set()
        )
        assert set(re.findall(r"(?<!\S)--[a-z][a-z0-9-]*", rest)) <= options | {"--plugin", "--help"}, rest


def test_every_function_is_documented() -> None:
    language = (ROOT / "docs" / "language.md").read_text()
    assert [name for name in [*FUNCTIONS, *FOLDS] if f"`{name}" not in language] == []


def test_documented_limits_equal_language_limits() -> None:
    limits = [Limits.nodes, MAX_WORK, MAX_BYTES, MAX_CALL_DEPTH, MAX_ITEMS, MAX_OUTCOMES, MAX_BITS]
    table = (ROOT / "docs" / "language.md").read_text().partition("| what | at most |")[2]
    assert [int(n.replace(",", "")) for n in re.findall(r"\| ([\d,]*\d)", table)] == limits
    assert limits == [200_000, 1_600_000, 1_048_576, 64, 100_000, 20_000, 4_096]
    assert MAX_ITERATIONS == MAX_ITEMS


@pytest.mark.parametrize(
    ("page", "results"), [("mixtures.md", ["search_step"]), ("deployment.md", ["export", "quantizing", "runtimes"])]
)
def test_documented_measurements_come_from_benchmark_results(page: str, results: list[str]) -> None:
    shown = [snippet.text.strip() for snippet in snippets(ROOT / "docs" / page, "none")]
    for name in results:
        measured = (ROOT / "benchmarks" / "results" / f"{name}_cpu.txt").read_text("utf-8")
        assert any(text in measured for text in shown), name


@pytest.mark.soak
def test_sphinx_reads_all_pages_without_warnings(tmp_path: Path) -> None:
    """References, tables of contents, snippets; nothing is written."""
    sphinx("dummy", tmp_path)


@pytest.mark.soak
def test_site_has_anchors_and_file_captions(site: Path) -> None:
    assert 'id="conv"' in (site / "docs" / "operations.html").read_text("utf-8")
    assert (site / "archir" / "diagnostics" / "codes" / "A0401.html").exists()
    assert '<span class="caption-text">tiny.arch</span>' in (site / "docs" / "index.html").read_text("utf-8")
    plugins = (site / "docs" / "plugins.html").read_text("utf-8")
    named = [one.file for one in snippets(ROOT / "docs" / "plugins.md") if one.file is not None]
    assert [one for one in named if f'<span class="caption-text">{one}</span>' not in plugins] == []


@pytest.mark.soak
def test_every_page_has_title_description_icon_and_edit_link(site: Path) -> None:
    """Also a heading of each level down to the lowest, texts of links and images, and a size for phones."""
    pages = {path: path.read_text("utf-8") for path in site.rglob("*.html") if "_static" not in path.parts}
    assert len(pages) > 300
    made = {site / f"{name}.html" for name in ("index", "genindex", "search", "404")}
    titles, descriptions = Counter[str](), Counter[str]()
    for path, text in pages.items():
        # without the sidebars, which are long and the same on all pages
        parsed = BeautifulSoup(re.sub("<aside.*?</aside>", "", text, flags=re.DOTALL), "html.parser")
        titles.update(title.text for title in parsed.select("title:not(svg title)"))
        descriptions.update(str(tag["content"]) for tag in parsed.select('meta[name="description"]'))
        assert parsed.select('html[lang="en"]'), path
        assert parsed.select('meta[name="viewport"]'), path
        levels = [int(heading.name[1]) for heading in parsed.select("h1, h2, h3, h4, h5, h6")]
        assert levels.count(1) == 1, path
        assert all(lower <= level + 1 for level, lower in pairwise([0, *levels])), path
        assert all(str(image.get("alt", "")).strip() for image in parsed.select("img")), path
        assert all(_text(link) and link["href"] for link in parsed.select("a[href]")), path
        if path not in made:
            assert 'rel="edit"' in text, path
            assert '_static/logo.svg"' in text, path
    for texts, shortest, longest in ((titles, 6, 120), (descriptions, 40, 160)):
        assert [text for text, count in texts.items() if count > 1] == []
        assert texts.total() == len(pages)
        assert [text for text in texts if not shortest <= len(text) <= longest] == []


def _text(link: Tag) -> str:
    """The text by which a link is read aloud."""
    images = [str(image["alt"]) for image in link.select("img")]
    return " ".join([*images, link.text, str(link.get("aria-label", "")), str(link.get("title", ""))]).strip()


@pytest.mark.soak
@pytest.mark.skipif(PROGRAM is None, reason="needs chromium")
def test_reader_stays_on_the_page_in_another_version(address: str, browser: Chromium) -> None:
    """Chosen with the keyboard; a page that the other version does not have leads to its first page."""
    for name, reached in (("docs/tutorial.html", "docs/tutorial.html"), ("docs/glossary.html", "")):
        browser.open(f"{address}archir/{name}")
        browser.until("!document.querySelector('.versions').hidden")
        browser.run("document.querySelector('.versions summary').focus()")
        browser.press("Enter", 13, "\r")
        links = browser.run("[...document.querySelectorAll('.versions a')].map(link => link.textContent)")
        assert links == ["0.2.0", "0.1.0"]
        browser.until(f"document.querySelector('.versions a[aria-current]').pathname === '/archir/{name}'")
        for _ in range(2):
            browser.press("Tab", 9)
        browser.until(f"document.activeElement.pathname === '/old/{reached}'")
        browser.press("Enter", 13, "\r")
        browser.until(f"location.pathname === '/old/{reached}' && document.title === 'Old'")


@pytest.mark.soak
@pytest.mark.skipif(PROGRAM is None, reason="needs chromium")
def test_a_single_version_is_not_offered(site: Path, address: str, browser: Chromium) -> None:
    """Nor is anything if the list of versions cannot be read."""
    assert json.loads((site.parent / "versions.json").read_text()) == [{"version": archir.__version__, "url": "html/"}]
    for opened in (f"{address}one/archir/docs/index.html", site / "docs" / "index.html"):
        browser.open(opened)
        browser.run("void fetch('../../versions.json').catch(() => {}).finally(() => { window.answered = true; })")
        browser.until("window.answered === true")
        assert browser.run("document.querySelector('.versions').hidden")


@pytest.mark.soak
def test_error_page_resolves_its_links_from_the_root_of_the_site(site: Path) -> None:
    text = (site / "404.html").read_text("utf-8")
    assert text.index('<base href="/archir/">') < text.index("<link")
    assert '<link rel="canonical" href="https://example.org/archir/docs/install.html"' in (
        site / "docs" / "install.html"
    ).read_text("utf-8")


QUESTIONS = {
    "install": "install", "GPU": "install", "how do I install it on Windows": "install", "FAQ": "troubleshooting",
    "out of memory": "troubleshooting", "accuracy stays at chance": "troubleshooting", "custom loss": "my_dataset",
    "pretrained weights": "importing", "import a PyTorch model": "importing", "quantization": "deployment",
    "export to ONNX": "deployment", "pruning": "shrink", "weight sharing": "supernets", "evolution": "multi",
    "Pareto front": "multi", "DARTS": "search", "resume a search": "search", "latency on my phone": "latency",
    "multiple GPUs": "executors", "NNI": "coming_from", "image folder": "my_images", "what is a cell": "glossary",
    "cite": "citation", "VS Code": "editors", "FLOPs": "costs", "knowledge distillation": "objectives",
    "Hugging Face dataset": "data", "archir.export": "api/export", "API reference": "api",
}  # fmt: skip
"""What users type into the search, with the page that answers it."""
FOUND = """(question => {
    history.replaceState(null, "", "?q=" + encodeURIComponent(question));
    const results = Search._performSearch(...Search._parseQuery(question)).reverse();
    return [...new Set(results.map(result => result[0]))].slice(0, 3);
})"""


@pytest.mark.soak
@pytest.mark.skipif(PROGRAM is None, reason="needs chromium")
def test_search_has_the_right_page_among_the_first_three(site: Path, browser: Chromium) -> None:
    browser.open(site / "search.html")
    browser.until("typeof Search !== 'undefined' && Search.hasIndex()")
    answers = {question: browser.run(f"{FOUND}({json.dumps(question)})") for question in QUESTIONS}
    assert {question: pages for question, pages in answers.items() if f"docs/{QUESTIONS[question]}" not in pages} == {}
    assert "archir/diagnostics/codes/A0401" in browser.run(f"{FOUND}('A0401')")


WIDE = """[...document.querySelectorAll("article *")].filter(element => {
    for (let above = element; above.tagName !== "ARTICLE"; above = above.parentElement)
        if (["auto", "scroll", "hidden"].includes(getComputedStyle(above).overflowX)) return false;
    return element.getBoundingClientRect().right > innerWidth + 1;
}).map(element => element.outerHTML.slice(0, 80))"""
"""Elements of an article that are wider than the window and are in nothing that scrolls."""


@pytest.mark.soak
@pytest.mark.skipif(PROGRAM is None, reason="needs chromium")
def test_pages_fit_a_phone_and_wide_tables_scroll_by_themselves(site: Path, browser: Chromium) -> None:
    browser.send("Emulation.setDeviceMetricsOverride", width=390, height=844, deviceScaleFactor=1, mobile=True)
    wide = {}
    for file in sorted((site / "docs").rglob("*.html")):
        browser.open(file)
        wide[file.name] = browser.run(WIDE)
    browser.send("Emulation.clearDeviceMetricsOverride")
    assert {name: elements for name, elements in wide.items() if elements} == {}


@pytest.mark.soak
@pytest.mark.skipif(PROGRAM is None, reason="needs chromium")
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_texts_have_contrast(dark: bool, site: Path, browser: Chromium) -> None:
    for name in ("index", "tutorial", "notebook", "api/search", "operations", "my_dataset"):
        browser.open("about:blank")
        browser.open(site / "docs" / f"{name}.html", dark)
        assert browser.run(LOW_CONTRAST) == [], name


COPIED = """(() => {
    const copied = [];
    document.execCommand = () => copied.push(document.activeElement.value);
    for (const button of document.querySelectorAll("button.copybtn")) button.click();
    return copied;
})()"""


@pytest.mark.soak
@pytest.mark.skipif(PROGRAM is None, reason="needs chromium")
def test_copy_button_omits_command_output(site: Path, browser: Chromium) -> None:
    browser.open(site / "docs" / "index.html")
    browser.until("document.querySelector('button.copybtn') !== null")
    program, counted, recipe, typed, python, drawn = browser.run(COPIED)
    index = ROOT / "docs" / "index.md"
    assert program == snippets(index, "arch")[0].text.strip()
    assert "\n".join([counted, typed, drawn]).splitlines() == [command for command, _ in commands(index)]
    assert recipe == snippets(index, "toml")[0].text.strip()
    assert python == snippets(index, "python")[0].text.strip()


LINKED = [
    *DOCUMENTS,
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "archir" / "diagnostics" / "codes").glob("*.md")),
]


@pytest.mark.parametrize("path", LINKED, ids=named)
def test_links_lead_somewhere(path: Path) -> None:
    """Those to other sites, which `make links` opens, are complete addresses."""
    links = re.findall(r"\]\(([^)\s]+)\)", prose(path)) + re.findall(r"<(\w+:[^>\s]+)>", prose(path))
    external = [link for link in links if ":" in link]
    complete = re.compile(r"https://(?!example\.)[a-z0-9-]+(\.[a-z0-9-]+)+(/[\w./#?=%-]*)?")
    assert [link for link in external if not complete.fullmatch(link) or re.search(r"NAME|OWNER|TODO", link)] == []
    local = [link.partition("#")[0] for link in links if ":" not in link]
    assert [link for link in local if not (path.parent / link).exists()] == []


# figures

FIGURE = re.compile(r"(?<![\d,.])\d{1,3}(?:,\d{3})+(?![\d,])")
EQUATION = re.compile(r"(?<![\w.])([\d^*()+ ]*\d\^[\d^*()+ ]*) = ([\d,]*\d)")


def prose(path: Path) -> str:
    """A document without its snippets and without what is generated."""
    text = path.read_text("utf-8")
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"<!-- (?:published figures|generated) -->.*?(?:<!-- end -->|\Z)", "", text, flags=re.DOTALL)


@cache
def known() -> frozenset[str]:
    """Figures that stand in a test, or in a page that is generated."""
    texts = [path.read_text("utf-8") for path in sorted((ROOT / "tests").rglob("*.py"))]
    found = {number.replace("_", "") for text in texts for number in re.findall(r"\b\d[\d_]{3,}\b", text)}
    sizes = FIGURE.findall((ROOT / "docs" / "examples.md").read_text("utf-8"))
    return frozenset(found | {size.replace(",", "") for size in sizes})


@pytest.mark.parametrize("path", DOCUMENTS, ids=named)
def test_figures_are_tested(path: Path) -> None:
    text = prose(path)
    shown = {figure.replace(",", "") for snippet in snippets(path) for figure in FIGURE.findall(snippet.text)}
    solved = {result.replace(",", "") for _, result in EQUATION.findall(text)}
    assert {figure.replace(",", "") for figure in FIGURE.findall(text)} - shown - solved <= known()


@pytest.mark.parametrize("path", [path for path in DOCUMENTS if EQUATION.search(prose(path))], ids=named)
def test_equations_hold(path: Path) -> None:
    for term, result in EQUATION.findall(prose(path)):
        assert value(term) == int(result.replace(",", "")), f"{term} = {result}"


def value(term: str) -> int:
    """The value of a term of sums, products and powers of integers, by archir's own arithmetic."""
    return int(parse_parameter(f"term={term.replace('^', '**')}")[1])


def test_no_page_installs_conflicting_onnxruntime() -> None:
    """Both packages write the same files: what names `onnxruntime` is installed into an environment of its own."""
    files = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md"), ROOT / "README.md"]
    wrong = []
    for line in [line.strip() for file in files for line in file.read_text("utf-8").splitlines()]:
        if found := re.fullmatch(r"(?:python -m )?pip install (?P<what>.*)", line):
            named = [ROOT / one for one in found["what"].split() if one.endswith(".txt")]
            texts = [found["what"], *(file.read_text("utf-8") for file in named if file.exists())]
            wrong += [line for text in texts if re.search(r"\bonnxruntime(?!-gpu)\b", text)]
    assert not wrong
