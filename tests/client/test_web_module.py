"""The small module for web pages is what its readable source gives."""

from __future__ import annotations

import gzip

import pytest

from shuffledp_client.web import MODULE, SOURCE, build, read_web_file
from shuffledp_core.errors import ConfigError

ORDERED = """
function first(user) {
  const a = user.begin;
  const [b, c] = user.next(a);
  return [a, b, c, a, b, c];
}
"""


def test_the_committed_module_is_built_from_the_source() -> None:
    source = read_web_file(SOURCE).decode()
    module = read_web_file(MODULE).decode()
    assert build.build_module(source) == module
    assert build.find_reordering(source, module) is None


def test_the_module_is_small() -> None:
    """Bytes as they are, and as the gateway sends them."""
    module = read_web_file(MODULE)
    assert len(module) < 62_000
    assert len(gzip.compress(module)) < 25_500


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
