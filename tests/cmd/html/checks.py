# SPDX-License-Identifier: Apache-2.0
"""What an HTML report has to do, asked of it in a browser. Each check gets the browser and the pages:
a file and the JSON report of the same comparison."""
import re
import time
import traceback

SETTLED = "new Promise(done => requestAnimationFrame(() => setTimeout(done, 120)))"


def settle(page):
    page.run(SETTLED)


def search(page, text):
    page.run(f"{{const box = document.getElementById('search'); box.value = {text!r};"
             "box.dispatchEvent(new Event('input'))}")
    page.run("new Promise(done => setTimeout(done, 200))")
    return page.run("document.querySelector('.shown').textContent")


def rows(page):
    """What the table shows, from the top: op, state, operator, module ..."""
    return page.run("[...document.querySelectorAll('.rows .row')].filter(r => !r.hidden)"
                    ".sort((a, b) => a.ariaRowIndex - b.ariaRowIndex)"
                    ".map(r => [...r.children].map(c => c.textContent))")


def indices(report, relation):
    return [item["op_index"]["baseline"] for item in report["divergences"]["items"]
            if item["relation"] == relation]


def check_quiet(page, pages):
    for name, (file, report) in pages.items():
        page.open(file, wait="document.documentElement?.dataset.ready === 'all'")
        settle(page)
        assert not page.problems, (name, page.problems)
        assert page.requests == [file.resolve().as_uri()], (name, page.requests)
        heading = page.run("document.querySelector('h1').textContent")
        assert heading.startswith(report["verdict"]["headline"].split()[0]), heading


def check_speed(page, pages):
    before = page.work()[1]
    page.open(pages["large"][0])
    settle(page)
    filled, layouts = page.work()
    print(f"100,000 operators stand after {filled} rectangles and {layouts} layouts")
    # As many as the plot has columns, and not as there are operators.
    assert 0 < filled < 50_000 and layouts - before < 50, (filled, layouts, before)
    nodes = page.run("document.querySelectorAll('.rows *').length")
    assert nodes < 1500, f"the table has {nodes} elements"
    assert search(page, "is:origin") == f"{pages['large'][1]['coverage']['origins']} of 100,000"
    settle(page)
    assert page.work()[0] - filled < 50_000 and page.work()[1] - layouts < 20, (filled, layouts, page.work())
    # To the last row and back, by way of a link to the middle.
    search(page, "")
    page.run("document.querySelector('.table').scrollTop = 1e9")
    settle(page)
    assert "99999" in [row[0] for row in rows(page)], rows(page)
    page.run("location.hash = '#op-50000'")
    settle(page)
    assert "50000" in [row[0] for row in rows(page)], rows(page)


def count_pixels(page, color, canvas=".plot canvas"):
    """Pixels of the plot, or another canvas, that are nearly of a colour of the page."""
    return page.run(f"""(() => {{
      const canvas = document.querySelector({canvas!r});
      const probe = document.createElement('canvas').getContext('2d');
      probe.fillStyle = Page.color({color!r}); probe.fillRect(0, 0, 1, 1);
      const [r, g, b] = probe.getImageData(0, 0, 1, 1).data;
      const {{data}} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
      let found = 0;
      for (let i = 0; i < data.length; i += 4)
        if (data[i + 3] > 120 && Math.abs(data[i] - r) + Math.abs(data[i + 1] - g)
            + Math.abs(data[i + 2] - b) < 24) found++;
      return found;
    }})()""")


def check_plot(page, pages):
    page.open(pages["small"][0])
    settle(page)
    for color, least in (("--origin", 20), ("--propagated", 500)):
        assert count_pixels(page, color) > least, (color, count_pixels(page, color))
    assert count_pixels(page, "--mismatch") == 0
    before = page.run("[...document.querySelectorAll('.lanes, .overview')].map(c => c.toDataURL().length)")
    assert min(before) > 600, before


def check_training(page, pages):
    """Plots of losses, norms, rates and drift; the second loss of a step is asked for."""
    page.open(pages["training"][0])
    settle(page)
    captions = "[...document.querySelectorAll('.training figcaption')].map(c => c.textContent)"
    titles = page.run("[...document.querySelectorAll('.training h3')].map(h => h.firstChild.textContent)")
    assert titles == ["Loss", "Drift of the parameters", "Gradient norm", "Learning rate"], titles
    said = page.run(captions)
    assert said[0].startswith("Bit-equal at every step"), said
    assert said[1].startswith("Bit-equal before step 11"), said
    page.run("document.querySelectorAll('.training .group button')[1].click()")
    settle(page)
    assert page.run(captions)[0].startswith("Bit-equal before step 12"), page.run(captions)
    for number, color in enumerate(("--propagated", "--origin")):
        canvas = f".training figure:nth-child({1 + number}) canvas"
        assert count_pixels(page, color, canvas) > 100, (color, count_pixels(page, color, canvas))
    # Lines where steps begin.
    lines = count_pixels(page, "--muted-ink")
    page.open(pages["small"][0])
    settle(page)
    assert page.run("document.querySelector('.training')") is None
    assert lines > count_pixels(page, "--muted-ink") + 1000, lines


def check_skipped(page, pages):
    """What was not compared is shown where it is asked for."""
    page.open(pages["training"][0])
    total = pages["training"][1]["coverage"]["baseline_ops"]
    assert search(page, "") == f"{total - 2} of {total}, 2 skipped hidden"
    assert search(page, "is:skipped") == f"2 of {total}"
    search(page, "")
    page.run("document.querySelector('.filter.skipped').click()")
    assert {row[1][1:] for row in rows(page)} == {"skipped"}


def check_lanes(page, pages):
    """What has no number, as nothing has at level digest, shows its state all the same."""
    page.open(pages["numberless"][0])
    settle(page)
    counts = pages["numberless"][1]["coverage"]
    for color, part in (("--origin", "origins"), ("--propagated", "propagated")):
        found = count_pixels(page, color, ".lanes")
        assert counts[part] > 0 and found >= counts[part], (color, found, counts)
    assert count_pixels(page, "--propagated", ".lanes") > count_pixels(page, "--origin", ".lanes")


def check_zoom(page, pages):
    page.open(pages["small"][0])
    settle(page)
    box = page.run("(() => { document.querySelector('.u-over').scrollIntoView({block: 'center'});"
                   "const b = document.querySelector('.u-over').getBoundingClientRect();"
                   "return [b.left, b.top, b.width, b.height] })()")
    middle = box[1] + box[3] / 2
    whole = page.run("document.querySelector('.lanes').toDataURL()")
    page.drag((box[0] + box[2] * 0.2, middle), (box[0] + box[2] * 0.4, middle))
    settle(page)
    assert page.run("document.querySelector('.lanes').toDataURL()") != whole, "a drag did not zoom"
    page.run("document.querySelector('.inview input').click()")
    settle(page)
    shown = page.run("document.querySelector('.shown').textContent")
    count = int(shown.split()[0])
    assert 480 * 0.15 < count < 480 * 0.25, shown
    page.run("document.querySelector('[aria-label=\"Whole trace\"]').click()")
    page.run("new Promise(done => setTimeout(done, 400))")
    assert page.run("document.querySelector('.shown').textContent") == "481 of 481"


def check_search(page, pages):
    file, report = pages["small"]
    page.open(file)
    total = f"of {report['coverage']['baseline_ops'] + report['coverage']['missing_in_baseline']}"
    origins = indices(report, "origin")
    assert search(page, "is:origin") == f"{len(origins)} {total}", origins
    assert [int(row[0]) for row in rows(page)] == origins
    assert search(page, "no such operator") == f"0 {total}"
    softmax = search(page, "/layer_norm$/ index:0..23")
    assert softmax == f"4 {total}", softmax
    assert search(page, "op:addmm -is:equal abs:>0 index:<480").endswith(total)
    assert all(row[2] == "aten::addmm" and row[4] for row in rows(page))
    assert "no number" in search(page, "abs:>much")
    assert page.run("document.getElementById('search').getAttribute('aria-invalid')") == "true"


def check_filter_and_sort(page, pages):
    file, report = pages["small"]
    page.open(file)
    page.run("document.querySelector('.filter.propagated').click()")
    assert {row[1][1:] for row in rows(page)} == {"propagated"}
    page.run("document.querySelector('.columnheader, [data-key=abs] button').click()")
    settle(page)
    shown = [float(row[4]) for row in rows(page) if row[4]]
    assert shown == sorted(shown, reverse=True), shown
    greatest = max(output["metrics"]["max_abs"]
                   for item in report["divergences"]["items"] if item["relation"] == "propagated"
                   for output in item["outputs"]
                   if output["metrics"] and isinstance(output["metrics"]["max_abs"], (int, float)))
    assert abs(shown[0] - greatest) < greatest * 1e-3, (shown[0], greatest)
    page.run("document.querySelector('.tree [role=treeitem]:nth-child(3)').click()")
    assert page.run("document.querySelector('.tree [aria-selected=true]')") is not None


def check_links(page, pages):
    file, report = pages["small"]
    first = report["first_divergence"]["op_index"]["baseline"]
    page.open(file, f"#op-{first + 7}")
    assert page.run("document.querySelector('.detail .permalink').textContent") == f"#op-{first + 7}"
    page.run("location.hash = '#op-3'")
    settle(page)
    assert page.run("document.querySelector('.detail .eyebrow').textContent").startswith("op 3 ")
    assert page.run("document.querySelector('.rows [aria-selected=true]').firstChild.textContent") == "3"
    page.open(file, "#q=is%3Aorigin")
    assert page.run("document.querySelector('.shown').textContent").startswith(
        str(len(indices(report, "origin"))))
    page.open(file, "#module=encoder.layers.8")
    assert page.run("document.querySelector('.tree [aria-selected=true] .name').textContent") == "8"
    # Without a place the page opens at the first divergence.
    page.open(file)
    assert page.run("document.querySelector('.detail .permalink').textContent") == f"#op-{first}"


def check_detail(page, pages):
    file, report = pages["small"]
    first = report["first_divergence"]
    page.open(file, wait="document.documentElement?.dataset.ready === 'all'")
    text = page.run("document.querySelector('.detail').textContent")
    for part in (first["key"]["operator"], first["key"]["module"], first["cause"]["evidence"],
                 first["outputs"][0]["samples"][0]["candidate"]["value"],
                 f"repro-check replay small-baseline --op {first['op_index']['baseline']}"):
        assert part in text, (part, text)
    assert page.run("document.querySelectorAll('.detail .bars rect').length") == 12
    assert page.run("document.querySelector('.detail canvas.heat').width") > 16
    producer = page.run("document.querySelector('.detail .links a').getAttribute('href')")
    page.run("document.querySelector('.detail .links a').click()")
    assert page.run("location.hash") == producer
    ledger = page.run("document.querySelector('.ledger').textContent")
    assert "started apart (first)" in ledger and "same place" in ledger, ledger
    assert "NaN in candidate: first at op" in page.run("document.querySelector('.specials').textContent")


def check_keys(page, pages):
    file, report = pages["small"]
    first, second = indices(report, "origin")[:2]
    page.open(file)
    page.key("n", "n")
    assert page.run("location.hash") == f"#op-{first + 1}"
    page.key("p", "p")
    page.key("o", "o")
    assert page.run("location.hash") == f"#op-{second}"
    page.key("j", "j")
    assert page.run("location.hash") == f"#op-{second + 1}"
    live = page.run("document.getElementById('live').textContent")
    assert live.startswith(f"op {second + 1} "), live
    page.key("/", "/")
    assert page.run("document.activeElement.id") == "search"
    page.key("n", "n")
    assert page.run("location.hash") == f"#op-{second + 1}", "a key acted while somebody typed"
    page.key("Escape")
    assert page.run("document.activeElement.className") == "table"
    page.key("ArrowUp")
    assert page.run("location.hash") == f"#op-{second}"
    page.key("?", "?")
    assert page.run("document.querySelector('dialog').open")


def check_hostile(page, pages):
    file, _ = pages["hostile"]
    page.open(file, wait="document.documentElement?.dataset.ready === 'all'")
    for text in ("", "</script>", "onerror"):
        search(page, text)
        settle(page)
    assert page.run("typeof window.__pwned") == "undefined"
    operators = {row[2] for row in rows(page)}
    assert any("onerror=window.__pwned" in name for name in operators), operators
    assert page.run("document.querySelectorAll('img, main script').length") == 0
    assert not page.problems, page.problems
    # The control: the same page without its escapes and its policy does run what a name says.
    text = file.read_text(encoding="utf-8")
    assert "\\u003c/script\\u003e" in text
    text = re.sub(r"<meta http-equiv=[^>]*>", "", text).replace("\\u003c", "<").replace("\\u003e", ">")
    bare = file.with_name("unescaped.html")
    bare.write_text(text, encoding="utf-8")
    page.open(bare, wait="document.readyState === 'complete'")
    assert page.run("window.__pwned") == 1, "the control does not show what the escapes are for"


def check_without_scripts(page, pages):
    file, report = pages["small"]
    page.call("Emulation.setScriptExecutionDisabled", value=True)
    page.call("Page.navigate", url=file.resolve().as_uri())
    # Without scripts there are no timers either, so nothing in the page can be waited for.
    time.sleep(1)
    text = page.run("document.body.innerText")
    page.call("Emulation.setScriptExecutionDisabled", value=False)
    assert report["verdict"]["headline"].split(" ", 1)[1][:40] in text
    assert "download the file" in text and "threads.intra_op" in text
    assert page.run("document.querySelectorAll('.fallback tbody tr').length") == 50


def check_print(page, pages):
    page.open(pages["small"][0])
    settle(page)
    document = page.pdf()
    assert document.startswith(b"%PDF") and len(document) > 20_000, len(document)


CONTRAST = """(() => {
  const probe = document.createElement('canvas').getContext('2d');
  const light = name => {
    probe.fillStyle = Page.color(name); probe.fillRect(0, 0, 1, 1);
    const parts = [...probe.getImageData(0, 0, 1, 1).data].slice(0, 3).map(v => v / 255)
      .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  return [['--ink', '--page'], ['--ink', '--card'], ['--ink', '--accent-soft'], ['--ink', '--bad-soft'],
    ['--muted-ink', '--page'], ['--muted-ink', '--card'], ['--muted-ink', '--sunken'],
    ['--accent', '--card'], ['--good', '--good-soft'], ['--bad', '--bad-soft'],
    ['--trouble', '--trouble-soft']].map((pair) => [...pair, 4.5])
    .concat(['--card', '--page', '--sunken', '--accent-soft'].flatMap(ground =>
      ['--accent', '--special', '--muted', ...Page.states.map(({color}) => color)].map(sign => [sign, ground, 3])))
    .map(([a, b, least]) => {
    const [x, y] = [light(a), light(b)];
    return [a, b, least, (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05)];
  });
})()"""


def check_themes(page, pages):
    grounds = set()
    for scheme in ("light", "dark"):
        page.scheme(scheme)
        page.open(pages["small"][0])
        grounds.add(page.run("getComputedStyle(document.body).backgroundColor"))
        pairs = page.run(CONTRAST)
        poor = [pair for pair in pairs if pair[3] < pair[2]]
        assert len(pairs) > 50 and not poor, (scheme, poor)
        assert count_pixels(page, "--origin") > 20
    page.scheme("light")
    assert len(grounds) == 2, grounds


def check_names_for_readers(page, pages):
    """Every control has a name, and the parts have roles."""
    page.open(pages["small"][0])
    unnamed = page.run("[...document.querySelectorAll('button, input, select, [role=grid], [role=tree],"
                       "[role=img], aside, nav')].filter(n => !(n.ariaLabel || n.textContent.trim() ||"
                       "n.closest('label'))).map(n => n.outerHTML.slice(0, 80))")
    assert not unnamed, unnamed
    assert page.run("document.querySelector('.table').getAttribute('aria-rowcount')") == "482"
    assert page.run("document.documentElement.lang") == "en"


def check_columns(page, pages):
    """Nothing in the table is cut or stands outside of what is seen of it, and no name of a module."""
    for width in (1280, 1440, 1760, 1920):
        page.resize(width, 900)
        page.open(pages["small"][0])
        settle(page)
        hidden = page.run("""(() => {
          const seen = document.querySelector('.table').getBoundingClientRect();
          const cut = (node) => node.scrollWidth > node.clientWidth;
          return [...document.querySelectorAll('.row:not([hidden]) .cell')].filter(cell => {
            const box = cell.getBoundingClientRect();
            return box.width && (box.left < seen.left || box.right > seen.right || cut(cell));
          }).concat([...document.querySelectorAll('.tree .name')].filter(cut))
            .map(cell => cell.className + ': ' + cell.textContent);
        })()""")
        assert not hidden, (width, hidden)
    page.resize(1500, 1000)


def check_opening(page, pages):
    """The divergence and its picture stand above everything else, and in the first screen."""
    page.resize(1280, 900)
    page.open(pages["small"][0])
    settle(page)
    tops = page.run("['h1', '.why', '.fix', '.timeline', '.workbench', '.settings', '.text']"
                    ".map(part => document.querySelector(part).getBoundingClientRect().top)")
    bottom = page.run("document.querySelector('.overview').getBoundingClientRect().bottom")
    values = page.run("[...document.querySelectorAll('.values tbody td')].map(cell => cell.textContent)")
    beside = page.run("document.querySelector('.values').getBoundingClientRect().bottom")
    sample = pages["small"][1]["first_divergence"]["outputs"][0]["samples"][0]
    page.resize(1500, 1000)
    assert tops == sorted(tops) and bottom < 900, (tops, bottom)
    assert values[1:3] == [sample[side]["value"] for side in ("baseline", "candidate")] and beside < tops[3], values
    assert page.run("document.querySelector('.fix h2').textContent") == "Fix"
    assert page.run("[...document.querySelectorAll('.settings details')].every(part => !part.open)")
    shown = page.run("document.querySelector('.settings').innerText")
    assert "threads.intra_op" in shown and "alike: " in shown and "a CPU" not in shown, shown


def check_narrow(page, pages):
    page.resize(400, 800)
    page.open(pages["small"][0])
    settle(page)
    wide = page.run("document.documentElement.scrollWidth")
    page.resize(1500, 1000)
    assert wide <= 400, f"the page is {wide} pixels wide in a window of 400"


def run_all(page, pages):
    """How many checks failed."""
    failed = 0
    for name, check in sorted(globals().items()):
        if not name.startswith("check_"):
            continue
        try:
            check(page, pages)
            print(f"ok      {name}")
        except Exception:
            failed += 1
            print(f"FAILED  {name}\n{traceback.format_exc()}")
    return failed
