"""How the tests read a report: strictly, as a browser that forgives nothing would."""

import xml.etree.ElementTree as ET
from collections import Counter

# All that a page may consist of: nothing here runs or loads anything.
TAGS = {
    *("html", "head", "meta", "title", "style", "body", "main", "header", "section", "div"),
    *("h1", "h2", "h3", "p", "ul", "li", "code", "span", "i", "wbr", "figure", "figcaption"),
    *("table", "thead", "tbody", "tr", "th", "td", "svg", "desc", "g", "path", "rect", "text"),
}
ATTRIBUTES = {
    *("lang", "charset", "http-equiv", "content", "name", "id", "class", "role", "tabindex", "scope"),
    *("aria-labelledby", "aria-label", "viewBox", "d", "x", "y", "width", "height", "rx", "textLength", "lengthAdjust"),
}


def parsed(html: str) -> ET.Element:
    """Parse a page, and check what every one of them must be."""
    head, _, rest = html.partition("\n")
    assert head == "<!DOCTYPE html>"
    root = ET.fromstring(rest)
    ids: Counter[str] = Counter()
    for element in root.iter():
        assert element.tag in TAGS, element.tag
        assert set(element.attrib) <= ATTRIBUTES, element.attrib
        ids.update([element.attrib["id"]] if "id" in element.attrib else [])
    assert [id for id, times in ids.items() if times > 1] == []
    for element in root.iter():
        for wanted in element.attrib.get("aria-labelledby", "").split():
            assert wanted in ids
    for picture in root.iter("svg"):
        assert picture.attrib["role"] == "img"
        assert (picture.findtext("title") or "").strip()
        assert (picture.findtext("desc") or "").strip()
    for table in root.iter("table"):
        widths = {len(list(row)) for row in table.iter("tr")}
        assert len(widths) == 1, widths
    style = root.findtext("head/style") or ""
    assert "url(" not in style
    assert "@import" not in style
    return root


def text_of(element: ET.Element) -> str:
    """All that is said in an element, but for what only pictures show."""
    if element.tag in ("svg", "style"):
        return ""
    parts = [element.text or ""]
    for child in element:
        parts += [text_of(child), child.tail or ""]
    return "".join(parts)


def section_of(root: ET.Element, id: str) -> ET.Element:
    """A section of the page."""
    (found,) = (element for element in root.iter("section") if element.attrib.get("id") == id)
    return found


def rows_of(section: ET.Element) -> list[list[str]]:
    """The rows of the first table of a section, its titles first."""
    table = next(section.iter("table"))
    return [[text_of(cell) for cell in row] for row in table.iter("tr")]
