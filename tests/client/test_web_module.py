"""The small module for web pages, and its parts, are what the readable sources give."""

from __future__ import annotations

import gzip

import pytest

from shuffledp_client.web import (
    MODULE,
    PARTS,
    SCRIPTS,
    SOURCE,
    build,
    integrity,
    integrity_of,
    read_web_file,
)
from shuffledp_core.errors import ConfigError

ORDERED = """
function first(user) {
  const a = user.begin;
  const [b, c] = user.next(a);
  return [a, b, c, a, b, c];
}
"""


def sources() -> dict[str, str]:
    return {name: read_web_file(name).decode() for name in (SOURCE, *PARTS.values())}


def test_the_committed_files_are_built_from_the_sources() -> None:
    built = build.build_files(sources())
    assert set(built) == {SOURCE, MODULE, *PARTS}
    for name, text in built.items():
        assert text == read_web_file(name).decode(), name
    for small, source in {MODULE: SOURCE, **PARTS}.items():
        assert build.find_reordering(sources()[source], built[small]) is None


def test_the_module_pins_its_parts() -> None:
    for text in (read_web_file(SOURCE), read_web_file(MODULE)):
        for name in PARTS:
            assert integrity_of(name).encode() in text
    longer = sources()["shuffledp-log.js"].replace("do not take part", "stay away")
    built = build.build_files({**sources(), "shuffledp-log.js": longer})
    pin = integrity(built["shuffledp-log.min.js"].encode())
    assert pin != integrity_of("shuffledp-log.min.js")
    assert pin in built[MODULE]


def test_a_part_that_the_module_does_not_pin_is_no_part() -> None:
    with pytest.raises(ConfigError, match="must pin"):
        build.pin_parts("const PARTS = {};\n", {"shuffledp-log.min.js": ""})


def test_every_script_is_in_the_package() -> None:
    folder = {name for name in SCRIPTS if read_web_file(name)}
    assert folder == set(SCRIPTS)
    assert len(set(SCRIPTS)) == 2 * (1 + len(PARTS)) + 2


def test_the_module_is_small() -> None:
    """Bytes as they are, and as the gateway sends them; parts come on top where they are needed."""
    module = read_web_file(MODULE)
    assert len(module) < 60_000
    assert len(gzip.compress(module)) < 25_000
    for name in PARTS:
        assert len(read_web_file(name)) < (15_000 if "mechanisms" in name else 7_000)


def test_all_exported_names_stay_and_others_become_short() -> None:
    source = "const secret = 1;\nexport const shown = () => secret;\nexport class Named {}\n"
    module = build.build_module(source)
    assert "export const[shown,Named]=" in module
    assert "secret" not in module


@pytest.mark.parametrize(
    "module",
    [
        "function first(a){const[t,n]=a.next(e),e=a.begin;return[e,t,n,e,t,n]}",
        "function first(a){const e=a.begin;return[e,e]}",
        "function first(a){const e=a.begin,[t,n]=a.next(e);return a.next(e),[e,t,n,e,t,n]}",
    ],
)
def test_a_module_in_another_order_is_noticed(module: str) -> None:
    good = "function first(a){const e=a.begin,[t,n]=a.next(e);return[e,t,n,e,t,n]}"
    assert build.find_reordering(ORDERED, good) is None
    assert build.find_reordering(ORDERED, module) is not None


def test_comments_and_joined_texts_are_no_difference() -> None:
    source = '// a.first "Text"\n/** b.second */\nconst text = "Some " +\n  "words"; // c.third\n'
    assert build.find_reordering(source, 'const e="Some words"') is None


@pytest.mark.parametrize("statement", ['import {a} from "./a.js";', "export {a};"])
def test_a_source_with_other_modules_is_refused(statement: str) -> None:
    with pytest.raises(ConfigError, match="may import nothing"):
        build.build_module(f"const a = 1;\n{statement}\n")


def test_another_minifier_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "MINIFIER_VERSION", "0.1")
    with pytest.raises(ConfigError, match="install tdewolff-minify==0"):
        build.build_module("const a = 1;")
