"""Labels that would break a page, a terminal or a formula, with the text that is to be seen."""

HOSTILE = {
    "$x^2$": "$x^2$",
    r"\alpha_{2} \frac{": r"\alpha_{2} \frac{",
    "</style></table><script>alert(1)</script>": "</style></table><script>alert(1)</script>",
    "a&amp;b <b>\"q\" 'r'": "a&amp;b <b>\"q\" 'r'",
    "--><!--": "--><!--",
    "line\nbreak\ttab\r": r"line\nbreak\ttab\r",
    "\x00nul\x1b[31m": r"\x00nul\x1b[31m",
    "\u202eright to left": r"\u202eright to left",
    "مرحبا بالعالم": "مرحبا بالعالم",
    "می\u200cخواهم": "می\u200cخواهم",
    "👩‍💻 🎉": "👩‍💻 🎉",
    "\ud800 alone": r"\ud800 alone",
    "%s {0} {{": "%s {0} {{",
    "": "",
    "_hidden": "_hidden",
    b"by\xff<tes>": r"by\xff<tes>",
    (1, "<i>"): "[1, '<i>']",
    7: "7",
    "x" * 500: "x" * 500,
}
