"""A page under watch, and names that try to break out of one."""

PHONE = {"width": 390, "height": 844}

HOSTILE = (
    "<script>alert(1)</script>",
    "</script><script>document.title = 'taken'</script>",
    '"><img src=x onerror="document.title = \'taken\'">',
    "' onmouseover='alert(1)",
    "<!-- <script>",
    "{{ 7 * 7 }} ${alert(1)}",
    "\u202eleft-to-right\u2066",
    "日本語 العربية 🧬",
    "line\u2028separator\u2029and\x00nul",
    "__proto__",
    "&lt;b&gt;&amp;",
    "a" * 400,
)


class Watched:
    """A page with everything it complained about or asked for."""

    def __init__(self, browser, path, **context):
        self.complaints = []
        self.requests = []
        self.context = browser.new_context(
            **{"viewport": {"width": 1200, "height": 900}, **context}
        )
        self.page = self.context.new_page()
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(dialog.message))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.url = path.as_uri()
        self.page.goto(self.url)

    def close(self):
        self.context.close()
        assert self.complaints == []
        assert self.requests == [self.url]


def names(page, tree="hierarchy-tree"):
    """Full names of the labels drawn."""
    return page.eval_on_selector_all(
        f"#{tree} [data-label] > title", "all => all.map(e => e.textContent)"
    )
