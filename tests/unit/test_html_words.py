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
        ("<title>Report</title></head><body>Sales rose", "Report\nSales rose"),
        ("<html>1<head>2</head>3<header>4</header>5", "1\n2\n3\n4\n5"),
        ("1<address>2</address>3<textarea>4</textarea>5", "1\n2\n3\n4\n5"),
        ("1<dialog>2</dialog>3<menu>4</menu>5", "1\n2\n3\n4\n5"),
        ("1<select><optgroup>2</select>3<input>4", "1 2 3 4"),
        ("<!DOCTYPE html><p>1", "1"),
        ("<?xml version='1.0'?>\n<!doctype html PUBLIC 'x'>1", "1"),
        ("<!doctype html", ""),
        ("1 <? 2 and 3 <! 4", "1 <? 2 and 3 <! 4"),
        ("&lt;b&gt; &#60; &#x3C; &eacute &notit; &amp;lt;", "<b> < < é ¬it; &lt;"),
        (f"&lt; &#{'9' * 5_000}; &#{'9' * 30}; &gt;", f"< &#{'9' * 5_000}; � >"),
    ],
)
def test_words_of_html_stay_apart(html: str, words: str) -> None:
    assert html_words(html) == words
