"""MkDocs' hooks of the documentation's site (mkdocs.yml).

Pages are written for plain Markdown, where a link is a path in the source tree. Here such links are turned into links of the site:
a link to a file or folder outside of docs/ leads to a copy of it under code/, whose lines have the anchors #L1, #L2, ...
README.md, CHANGELOG.md, CONTRIBUTING.md and tests/README.md become pages. A link or an anchor that leads nowhere fails the build, and so does
anything that a page would load from another host.
"""
import html
import logging
import pathlib
import posixpath
import re
import shutil

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parents[2]
CODE = ["cmake", "collectives", "core", "deploy", "examples", "launcher", "nn", "rendezvous", "tests", "dev", "CMakeLists.txt",
        "CMakePresets.json", "LICENSE", "llms.txt"]
# Pages from outside of docs/: their place in the tree, and in the site.
OUTSIDE = {"README.md": "overview.md", "CHANGELOG.md": "CHANGELOG.md", "CONTRIBUTING.md": "CONTRIBUTING.md",
           "tests/README.md": "tests.md"}
# Stands for the way to code/ until the page is HTML: MkDocs warns of a link to a file that it does not know.
CODE_LINK = "code:"
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
FENCE = re.compile(r"^\s*```")
ITEM = re.compile(r"^(\s*)([-*+]|\d+[.)])(\s+)")

log = logging.getLogger("mkdocs")


def github_slug(text, separator):
    """The anchor of a heading, as GitHub makes it: links in the pages are written for that."""
    text = re.sub(r"<[^>]*>", "", text).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", separator)


def on_config(config):
    config["mdx_configs"].setdefault("toc", {})["slugify"] = github_slug
    return config


def on_files(files, config):
    for file in list(files):
        if file.src_path.endswith((".py", ".pyc", ".txt", ".jsonl", ".tsv")):
            files.remove(file)
    for place, page in OUTSIDE.items():
        file = File(page, str(ROOT), config["site_dir"], config["use_directory_urls"])
        file.abs_src_path = str(ROOT / place)
        files.append(file)
    return files


def place_of(page):
    """Where a page of the site is in the tree."""
    return next((place for place, name in OUTSIDE.items() if name == page), "docs/" + page)


def target_in_site(place):
    """Where a file or folder of the tree is in the site."""
    if place in OUTSIDE:
        return OUTSIDE[place]
    path = ROOT / place
    if not path.exists():
        return None
    if place == "docs" or place.startswith("docs/"):
        if path.is_dir():
            page = path / "README.md"
            return page.relative_to(ROOT / "docs").as_posix() if page.exists() else None
        if path.suffix in (".md", ".svg", ".png"):
            return path.relative_to(ROOT / "docs").as_posix()
    return f"{CODE_LINK}{place}/index.html" if path.is_dir() else f"{CODE_LINK}{place}.html"


def with_links(line, page):
    def changed(match):
        target, _, anchor = match[2].partition("#")
        if not target or re.match(r"^[a-z]+:", target):
            return match[0]
        place = posixpath.normpath(posixpath.join(posixpath.dirname(place_of(page)), target))
        found = target_in_site(place)
        if found is None:
            log.warning("%s: the link to %s leads nowhere", place_of(page), target)
            return match[0]
        there = found if found.startswith(CODE_LINK) else posixpath.relpath(found, posixpath.dirname(page) or ".")
        return match[1] + there + (f"#{anchor}" if anchor else "") + match[3]

    return "".join(part if part.startswith("`") else LINK.sub(changed, part) for part in re.split(r"(`[^`]*`)", line))


def with_list_indents(lines):
    """Python-Markdown wants a blank line before a list or a table, and four blanks a level: GitHub does not."""
    out, levels, fenced = [], [], False
    for line in lines:
        if FENCE.match(line):
            fenced = not fenced
        if not line.strip():
            out.append("")
            continue
        indent = len(line) - len(line.lstrip())
        item = None if fenced and not FENCE.match(line) else ITEM.match(line)
        if not (fenced and not FENCE.match(line)):
            after_blank = not out or not out[-1].strip()
            while levels and indent < levels[-1] and (item or after_blank or not out[-1].strip()):
                levels.pop()
        own = levels[-1] if levels else 0
        text = line[min(own, indent):]
        prefix = "    " * len(levels)
        if not levels and out and out[-1].strip() and not fenced:
            begins_list = item and not ITEM.match(out[-1]) and not out[-1].startswith(" ")
            begins_table = line.startswith("|") and not out[-1].startswith("|")
            if begins_list or begins_table:
                out.append("")
        out.append(prefix + text)
        if item:
            levels.append(len(item[0]))
    return out


def on_page_markdown(markdown, page, config, files):
    lines = with_list_indents(re.sub(r"<!--.*?-->\n?", "", markdown, flags=re.S).split("\n"))
    # A link may be broken between its text and nowhere else, so that each line can be taken alone.
    fenced, done = False, []
    for line in lines:
        if FENCE.match(line):
            fenced = not fenced
        done.append(line if fenced else with_links(line, page.file.src_path))
    return "\n".join(done)


def on_page_content(content, page, config, files):
    return content.replace(f'href="{CODE_LINK}', 'href="' + "../" * page.file.src_path.count("/") + "code/")


STYLE = """body{font:15px/1.5 system-ui,sans-serif;margin:1.5rem auto;max-width:62rem;padding:0 1rem;color:#1f2328;background:#fff}
a{color:#0550ae;text-decoration:none}a:hover{text-decoration:underline}
pre{font:13px/1.45 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;overflow-x:auto;border-top:1px solid #d1d9e0;padding-top:1rem}
pre a{display:inline-block;width:4ch;margin-right:2ch;text-align:right;color:#8c959f}pre span:target{background:#fff8c5}
@media (prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}a{color:#6cb6ff}pre{border-color:#30363d}
pre a{color:#6e7681}pre span:target{background:#3b2e00}}"""


def code_page(place, body, depth):
    up = "../" * depth
    crumbs, parts = [f'<a href="{up}../index.html">dlrun</a>'], place.split("/")
    for i, part in enumerate(parts[:-1]):
        crumbs.append(f'<a href="{up}{"/".join(parts[:i + 1])}/index.html">{html.escape(part)}</a>')
    return (f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
            f"<title>{html.escape(place)}</title><style>{STYLE}</style><p>{' / '.join([*crumbs, html.escape(parts[-1])])}</p>{body}</html>\n")


def write_code(site):
    """A copy of the source tree: a page a file, and one a folder."""
    for top in CODE:
        paths = [ROOT / top] if (ROOT / top).exists() else []
        for path in paths:
            place = path.relative_to(ROOT).as_posix()
            depth = place.count("/")
            if path.is_dir():
                children = sorted((p for p in path.iterdir() if not p.name.startswith((".", "__"))), key=lambda p: (p.is_file(), p.name))
                paths += children
                rows = "".join(f'<li><a href="{p.name}{"/index" if p.is_dir() else ""}.html">{p.name}{"/" if p.is_dir() else ""}</a></li>'
                               for p in children)
                target, body = site / "code" / place / "index.html", f"<ul>{rows}</ul>"
                depth += 1
            else:
                try:
                    text = path.read_text()
                except UnicodeDecodeError:
                    text = f"({path.stat().st_size} bytes that are no text)"
                lines = (f'<span id="L{i}"><a href="#L{i}">{i}</a>{html.escape(line, quote=False)}</span>'
                         for i, line in enumerate(text.rstrip("\n").split("\n"), 1))
                target, body = site / "code" / (place + ".html"), "<pre>" + "\n".join(lines) + "</pre>"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(code_page(place, body, depth))


def faults(site):
    """Links and anchors that lead nowhere, and what would be loaded from another host."""
    pages = {path.relative_to(site).as_posix(): path.read_text() for path in site.rglob("*.html") if "code/" not in path.as_posix()}
    ids, found = {}, []

    def anchors(page):
        if page not in ids:
            text = pages.get(page) or (site / page).read_text()
            ids[page] = set(re.findall(r'\bid="([^"]+)"', text)) | set(re.findall(r'\bname="([^"]+)"', text))
        return ids[page]

    for page, text in pages.items():
        for tag in re.findall(r"<(?:script|link|img|iframe|source|object)\b[^>]*>", text):
            if re.search(r'(?:src|href|data)="?(?:https?:)?//', tag) and "rel=canonical" not in tag.replace('"', ""):
                found.append(f"{page} loads from another host: {tag}")
        for target in set(re.findall(r'\b(?:href|src)="([^"]+)"', text)):
            target = html.unescape(target)
            if re.match(r"^([a-z]+:|//)", target) or page == "404.html":
                continue
            path, _, anchor = target.partition("#")
            there = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page
            if not (site / there).exists():
                found.append(f"{page}: the link to {target} leads nowhere")
            elif anchor and there.endswith(".html") and not anchor.startswith("__") and anchor not in anchors(there):
                found.append(f"{page}: {there} has no anchor #{anchor}")
    for path in site.rglob("*.css"):
        found += [f"{path.name} loads {url}" for url in re.findall(r"url\(['\"]?((?:https?:)?//[^)]*)", path.read_text())]
    return found


def on_post_build(config):
    site = pathlib.Path(config["site_dir"])
    if (site / "code").exists():
        shutil.rmtree(site / "code")
    write_code(site)
    if (ROOT / "llms.txt").exists():
        shutil.copy(ROOT / "llms.txt", site / "llms.txt")
    found = sorted(faults(site))
    if found:
        raise PluginError("\n".join(found))
