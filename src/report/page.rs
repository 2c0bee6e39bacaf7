//! Writes a page: elements that are closed in order, texts that show as themselves. The result is HTML that is well-formed XML as well.

use crate::base::xml::escape;

/// A page under construction.
#[derive(Debug, Default)]
pub(super) struct Page {
    out: String,
    open: Vec<&'static str>,
}

impl Page {
    /// Begins an element.
    pub fn open(&mut self, element: &'static str, attributes: &[(&str, &str)]) {
        self.tag(element, attributes, ">");
        self.open.push(element);
    }

    /// Ends the element that was begun last.
    pub fn close(&mut self) {
        if let Some(element) = self.open.pop() {
            self.out.extend(["</", element, ">"]);
            // A line end in a paragraph or in a text that is laid out would show.
            if !matches!(element, "code" | "span" | "a" | "b" | "td" | "text" | "title") {
                self.out.push('\n');
            }
        }
    }

    /// An element without contents.
    pub fn empty(&mut self, element: &'static str, attributes: &[(&str, &str)]) {
        self.tag(element, attributes, "/>\n");
    }

    /// An element that holds a text.
    pub fn element(&mut self, element: &'static str, attributes: &[(&str, &str)], text: &str) {
        self.open(element, attributes);
        self.text(text);
        self.close();
    }

    /// A text.
    pub fn text(&mut self, text: &str) {
        self.out.push_str(&escape(text));
    }

    /// Elements that a printer wrote.
    pub fn markup(&mut self, markup: &str) {
        self.out.push_str(markup);
    }

    /// A paragraph in which what stands between backticks is code.
    pub fn paragraph(&mut self, text: &str) {
        self.open("p", &[]);
        self.words(text);
        self.close();
    }

    /// Words in which what stands between backticks is code.
    pub fn words(&mut self, text: &str) {
        for (at, part) in text.split('`').enumerate() {
            match at % 2 {
                0 => self.text(part),
                _ => self.element("code", &[], part),
            }
        }
    }

    /// A text that is laid out, as far as the limits go; a line says where it was cut.
    pub fn listing(&mut self, text: &str, limits: Limits) {
        let (shown, cut) = limits.cut(text);
        self.open("pre", &[]);
        for line in shown.lines() {
            match line.trim_start().starts_with('#') {
                true => self.element("span", &[("class", "note")], line),
                false => self.text(line),
            }
            self.out.push('\n');
        }
        self.close();
        if let Some(lines) = cut {
            self.cut(&format!(
                "Cut here: the text has {lines} lines, and a page shows {} lines and {} characters of one.",
                limits.lines, limits.characters
            ));
        }
    }

    /// A paragraph that says what is not shown.
    pub fn cut(&mut self, text: &str) {
        self.element("p", &[("class", "cut")], text);
    }

    /// The page, with all elements closed.
    pub fn finish(mut self) -> String {
        while !self.open.is_empty() {
            self.close();
        }
        self.out
    }

    fn tag(&mut self, element: &str, attributes: &[(&str, &str)], end: &str) {
        self.out.extend(["<", element]);
        for (name, value) in attributes {
            self.out.extend([" ", name, "=\"", &escape(value), "\""]);
        }
        self.out.push_str(end);
    }
}

/// How much of a text is shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub lines: usize,
    pub characters: usize,
}

impl Limits {
    /// What is shown of a text, and how many lines it has if that is not all.
    fn cut(self, text: &str) -> (&str, Option<usize>) {
        let lines = text.split_inclusive('\n').take(self.lines).map(str::len).sum::<usize>();
        let mut end = lines.min(text.char_indices().nth(self.characters).map_or(text.len(), |(at, _)| at));
        if end < lines
            && let Some(at) = text[..end].rfind('\n')
        {
            end = at + 1;
        }
        (&text[..end], (end < text.len()).then(|| text.lines().count()))
    }
}

#[cfg(test)]
mod tests {
    use super::{Limits, Page};

    #[test]
    fn elements_close_in_order() {
        let mut page = Page::default();
        page.open("div", &[("title", "\"<&")]);
        page.paragraph("`a < b` holds");
        page.open("ul", &[]);
        let expected = "<div title=\"&quot;&lt;&amp;\"><p><code>a &lt; b</code> holds</p>\n<ul></ul>\n</div>\n";
        assert_eq!(page.finish(), expected);
    }

    #[test]
    fn texts_are_cut_at_line_ends() {
        let limits = Limits { lines: 2, characters: 7 };
        assert_eq!(limits.cut("a\nb\n"), ("a\nb\n", None));
        assert_eq!(limits.cut("a\nb\nc\n"), ("a\nb\n", Some(3)));
        assert_eq!(limits.cut("abcd\nefgh\n"), ("abcd\n", Some(2)));
        assert_eq!(limits.cut("äbcdefgh"), ("äbcdefg", Some(1)));
    }
}
