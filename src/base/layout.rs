//! The text writer shared by all printers.
//!
//! A [`Doc`] is a stream of text, places where a line may break, and groups. A group is set on one line if it fits, otherwise its
//! breaks become line ends: all [`line`](Doc::line)s of it, and as many [`fill`](Doc::fill)s as needed. Rendering takes two loops over the
//! stream, one backward for widths and one forward for output, so it is linear and uses no call stack; indentation is capped, so
//! that deep nesting does not make the output quadratic.

/// A document under construction.
#[derive(Clone, Debug, Default)]
pub struct Doc {
    text: String,
    tokens: Vec<Token>,
}

#[derive(Clone, Copy, Debug)]
enum Token {
    /// The next bytes of the text, and how many characters they are.
    Text {
        bytes: usize,
        width: u32,
    },
    /// A possible line end, `flat` columns wide where it is none.
    Line {
        flat: u32,
        fill: bool,
    },
    /// A line end.
    Hard,
    /// `indent` columns more than around, or as deep as the column where there is none.
    Open {
        indent: Option<u32>,
    },
    Close,
}

/// Widths seen from a token, found by the backward loop.
#[derive(Clone, Copy, Default)]
struct Width {
    /// `Open`: of the group on one line. `Line`: up to the next break of the same group.
    ahead: u32,
    /// `Open`: what follows the group without a break.
    behind: u32,
}

/// Wider than any line.
const ENDLESS: u32 = u32::MAX / 4;

impl Doc {
    /// The usual line width.
    pub const WIDTH: u32 = 100;

    /// Lines are never indented further.
    pub const MAX_INDENT: u32 = 40;

    /// An empty document.
    pub fn new() -> Self {
        Doc::default()
    }

    /// Text without line ends.
    pub fn text(&mut self, text: &str) {
        self.markup(text, u32::try_from(text.chars().count()).unwrap_or(ENDLESS));
    }

    /// Text without line ends that is so many columns wide when it is shown, as elements of MathML are.
    pub fn markup(&mut self, text: &str, width: u32) {
        if text.is_empty() {
            return;
        }
        self.text.push_str(text);
        let width = width.min(ENDLESS);
        if let Some(Token::Text { bytes, width: w }) = self.tokens.last_mut() {
            *bytes += text.len();
            *w = w.saturating_add(width).min(ENDLESS);
        } else {
            self.tokens.push(Token::Text { bytes: text.len(), width });
        }
    }

    /// A space, or a line end where the group does not fit.
    pub fn line(&mut self) {
        self.tokens.push(Token::Line { flat: 1, fill: false });
    }

    /// Nothing, or a line end where the group does not fit.
    pub fn soft(&mut self) {
        self.tokens.push(Token::Line { flat: 0, fill: false });
    }

    /// A space, or a line end where what follows up to the next break does not fit.
    pub fn fill(&mut self) {
        self.tokens.push(Token::Line { flat: 1, fill: true });
    }

    /// A line end.
    pub fn hard(&mut self) {
        self.tokens.push(Token::Hard);
    }

    /// Begins a group; its lines are indented by so much more.
    pub fn open(&mut self, indent: u32) {
        self.tokens.push(Token::Open { indent: Some(indent) });
    }

    /// Begins a group; its lines begin in the column where it begins.
    pub fn align(&mut self) {
        self.tokens.push(Token::Open { indent: None });
    }

    /// Ends the group begun last.
    pub fn close(&mut self) {
        self.tokens.push(Token::Close);
    }

    fn widths(&self) -> Vec<Width> {
        #[derive(Default)]
        struct Group {
            flat: u32,
            segment: u32,
            behind: u32,
        }
        let add = |a: &mut u32, b: u32| *a = a.saturating_add(b).min(ENDLESS);
        let mut widths = vec![Width::default(); self.tokens.len()];
        let mut outer: Vec<Group> = Vec::new();
        let mut group = Group::default();
        // The text between here and the next break of any group.
        let mut unbroken = 0;
        for (token, width) in self.tokens.iter().zip(&mut widths).rev() {
            match *token {
                Token::Text { width, .. } => {
                    add(&mut group.flat, width);
                    add(&mut group.segment, width);
                    add(&mut unbroken, width);
                }
                Token::Line { flat, .. } => {
                    width.ahead = group.segment;
                    group.segment = 0;
                    add(&mut group.flat, flat);
                    unbroken = 0;
                }
                Token::Hard => {
                    group.segment = 0;
                    group.flat = ENDLESS;
                    unbroken = 0;
                }
                Token::Close => {
                    let inner = Group { flat: 0, segment: unbroken, behind: unbroken };
                    outer.push(std::mem::replace(&mut group, inner));
                }
                Token::Open { .. } => {
                    *width = Width { ahead: group.flat, behind: group.behind };
                    let inner = std::mem::replace(&mut group, outer.pop().unwrap_or_default());
                    add(&mut group.flat, inner.flat);
                    if inner.flat < ENDLESS {
                        add(&mut group.segment, inner.flat);
                    } else {
                        // It breaks in any case: what counts is its first line.
                        group.segment = unbroken;
                    }
                }
            }
        }
        widths
    }

    /// The text, in lines of the given width where that is possible.
    pub fn render(&self, width: u32) -> String {
        let widths = self.widths();
        let mut out = String::with_capacity(self.text.len() + self.text.len() / 8);
        let mut rest = self.text.as_str();
        let mut column = 0u32;
        let mut outer: Vec<(bool, u32)> = Vec::new();
        // Whether the group is on one line, and its indentation.
        let (mut flat, mut indent) = (false, 0u32);
        let end_line = |out: &mut String, column: &mut u32, indent: u32| {
            out.truncate(out.trim_end_matches(' ').len());
            out.push('\n');
            *column = indent.min(Doc::MAX_INDENT);
            out.extend(std::iter::repeat_n(' ', *column as usize));
        };
        for (token, ahead) in self.tokens.iter().zip(&widths) {
            match *token {
                Token::Text { bytes, width } => {
                    let (text, after) = rest.split_at(bytes);
                    out.push_str(text);
                    rest = after;
                    column = column.saturating_add(width);
                }
                Token::Line { flat: space, fill } => {
                    let fits = || column.saturating_add(space).saturating_add(ahead.ahead) <= width;
                    // Where lines are indented no deeper, one that begins with a `-` would be no part of the one before.
                    let is_part = indent >= Doc::MAX_INDENT && rest.starts_with("- ");
                    if flat || (fill && (is_part || fits())) {
                        out.extend(std::iter::repeat_n(' ', space as usize));
                        column = column.saturating_add(space);
                    } else {
                        end_line(&mut out, &mut column, indent);
                    }
                }
                Token::Hard => end_line(&mut out, &mut column, indent),
                Token::Open { indent: more } => {
                    outer.push((flat, indent));
                    flat = flat || column.saturating_add(ahead.ahead).saturating_add(ahead.behind) <= width;
                    indent = more.map_or(column, |more| indent.saturating_add(more));
                }
                Token::Close => (flat, indent) = outer.pop().unwrap_or((false, 0)),
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::Doc;

    fn call(doc: &mut Doc, name: &str, args: &[&str]) {
        doc.text(name);
        doc.text("(");
        doc.open(2);
        doc.soft();
        for (at, arg) in args.iter().enumerate() {
            if at > 0 {
                doc.text(",");
                doc.line();
            }
            doc.text(arg);
        }
        doc.close();
        doc.text(")");
    }

    #[test]
    fn layout_group_breaks_all_lines_or_none() {
        let mut doc = Doc::new();
        call(&mut doc, "f", &["alpha", "beta"]);
        assert_eq!(doc.render(14), "f(alpha, beta)");
        assert_eq!(doc.render(13), "f(\n  alpha,\n  beta)");
    }

    #[test]
    fn layout_fill_breaks_where_needed() {
        let mut doc = Doc::new();
        doc.open(2);
        doc.text("a0");
        for at in 1..6 {
            doc.fill();
            doc.text(&format!("+ a{at}"));
        }
        doc.close();
        assert_eq!(doc.render(12), "a0 + a1 + a2\n  + a3 + a4\n  + a5");
    }

    #[test]
    fn layout_differences_go_on_where_lines_cannot_be_indented_deeper() {
        let mut doc = Doc::new();
        doc.open(Doc::MAX_INDENT);
        doc.text("a");
        for sign in ["+ b", "- c"] {
            doc.fill();
            doc.text(sign);
        }
        doc.close();
        let indent = " ".repeat(Doc::MAX_INDENT as usize);
        assert_eq!(doc.render(3), format!("a\n{indent}+ b - c"));
    }

    #[test]
    fn layout_hard_line_breaks_the_groups_around() {
        let mut doc = Doc::new();
        doc.open(1);
        doc.text("a");
        doc.line();
        doc.text("b");
        doc.hard();
        doc.text("c");
        doc.close();
        assert_eq!(doc.render(80), "a\n b\n c");
    }

    #[test]
    fn layout_deep_nesting_is_linear() {
        let mut doc = Doc::new();
        for _ in 0..200_000 {
            doc.open(2);
            doc.text("(");
            doc.line();
        }
        for _ in 0..200_000 {
            doc.close();
        }
        assert!(doc.render(80).len() < 200_000 * (Doc::MAX_INDENT as usize + 3));
    }
}
