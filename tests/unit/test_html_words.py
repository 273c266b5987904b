"""The words of HTML that is no table."""

from __future__ import annotations

import pytest

from mahtab_tui.worker.values.html_words import html_words


@pytest.mark.parametrize(
    ("html", "words"),
    [
        ("<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>", "a b\n1 2"),
        ("<TABLE><TR><TD class='x'>1<TD>2</TABLE>", "1 2"),
        ("<table><tr>\n <td> 1 </td>\n <td>2</td></tr></table>", "1 2"),
        ("<dl><dt>n</dt><dd>5</dd></dl>", "n 5"),
        ("<b>4</b><sup>2</sup> and x<sub>1</sub>2", "4 2 and x 1 2"),
        ("<select><option>1<option>2</select>", "1 2"),
        ("<button>1</button><button>2</button><label>3</label>4", "1 2 3 4"),
        ("<section>1</section><section>2</section>", "1\n2"),
        ("<b>12</b><i>3</i>4", "1234"),
        ("one\ntwo <pre>a\n\n  b <b>c</b>\nd</pre> three\nfour", "one two\na\nb c\nd\nthree four"),
        ("<pre>1\n2", "1\n2"),
    ],
)
def test_words_of_html_stay_apart(html: str, words: str) -> None:
    assert html_words(html) == words
