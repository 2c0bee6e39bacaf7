//! Problems for people: each with its place in the text, a caret under it and advice.
//!
//! The drawing library counts characters and believes its input, so the text is made harmless first, character by character:
//! what a terminal would act on becomes `\u{fffd}`, spans are cut to the text, to whole characters and to their first line.
//! A line too long to show is replaced by its number, and only the message is printed.

use std::sync::Arc;

use ariadne::{Color, Config, Label, Report, ReportKind, Source};

use super::Span;
use super::error::{Diagnostic, Error, Origin};

/// The longest line, in characters, that is shown.
const MAX_LINE: usize = 500;

/// A place as the drawing library wants it: characters, not bytes.
struct Place {
    /// Character offsets of the span in the whole text.
    start: usize,
    end: usize,
    /// From 1.
    line: usize,
    column: usize,
    /// Whether its line is short enough to show.
    shown: bool,
}

/// Renders problems of the text of `file`, each with a caret under its place. Any spans are accepted.
pub fn render(file: &str, text: &str, diagnostics: &[Diagnostic], color: bool) -> String {
    draw(file, text, diagnostics, color, false)
}

/// Renders warnings as [`render`] does problems.
pub fn render_warnings(file: &str, text: &str, warnings: &[Diagnostic], color: bool) -> String {
    draw(file, text, warnings, color, true)
}

fn draw(file: &str, text: &str, diagnostics: &[Diagnostic], color: bool, warns: bool) -> String {
    let (kind, word, shade) = match warns {
        // A kind of our own would be coloured even where nothing is.
        true => (ReportKind::Warning, "Warning", Color::Yellow),
        false => (ReportKind::Error, "Error", Color::Red),
    };
    let harmless = |c: char| match c {
        '\n' | '\t' => c,
        '\r' => ' ',
        c if c.is_control() || c.is_whitespace() && c != ' ' => '\u{fffd}',
        // Marks that reorder text would hide what stands there.
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        c => c,
    };
    let source = Source::from(text.chars().map(harmless).collect::<String>());
    let file: String = file.chars().map(harmless).map(|c| if c == '\n' { ' ' } else { c }).collect();
    let config = Config::default().with_color(color);
    let places = places(text, diagnostics);
    let mut out = Vec::new();
    for (diagnostic, place) in diagnostics.iter().zip(places) {
        let message: String = diagnostic.message.chars().map(harmless).collect();
        let mut written = false;
        if place.shown {
            let span = (file.as_str(), place.start..place.end);
            let label = Label::new(span.clone()).with_color(shade).with_message("here");
            let mut report = Report::build(kind, span)
                .with_config(config)
                .with_code(diagnostic.code)
                .with_message(&message)
                .with_label(label);
            if let Some(help) = &diagnostic.help {
                report = report.with_help(help.chars().map(harmless).collect::<String>());
            }
            // Writing to memory does not fail.
            written = report.finish().write((file.as_str(), &source), &mut out).is_ok();
        }
        if !written {
            let Place { line, column, .. } = place;
            let plain = format!("[{}] {word}: {message}\n  at {file}:{line}:{column}\n", diagnostic.code);
            out.extend_from_slice(plain.as_bytes());
            if let Some(help) = &diagnostic.help {
                out.extend_from_slice(format!("  Help: {help}\n").as_bytes());
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Renders an error: the problems of a program with their places, any other error as its message.
pub fn render_error(file: &str, text: &str, error: &Error, color: bool) -> String {
    match error {
        Error::Program(diagnostics) => render(file, text, diagnostics, color),
        Error::Limitation { span: Some(span), .. } => {
            render(file, text, &[Diagnostic::new("limitation", *span, error.to_string())], color)
        }
        _ => format!("Error: {error}\n"),
    }
}

/// Says of problems of a text on which lines they are, [`Diagnostic::origin`], where that is not known.
pub fn locate(text: &str, diagnostics: &mut [Diagnostic]) {
    if diagnostics.is_empty() {
        return;
    }
    let shared: Arc<str> = text.into();
    let places = places(text, diagnostics);
    for (diagnostic, Place { line, column, .. }) in diagnostics.iter_mut().zip(places) {
        diagnostic.origin.get_or_insert_with(|| Origin::Text { text: Arc::clone(&shared), line, column });
    }
}

/// The places of all problems, in one pass over the text.
fn places(text: &str, diagnostics: &[Diagnostic]) -> Vec<Place> {
    let mut order: Vec<usize> = (0..diagnostics.len()).collect();
    order.sort_by_key(|k| diagnostics[*k].span.start);
    let mut places: Vec<Option<Place>> = diagnostics.iter().map(|_| None).collect();
    let (mut byte, mut chars, mut line, mut line_start) = (0, 0, 1, 0);
    for k in order {
        let Span { start, end } = diagnostics[k].span;
        let start = (0..=text.len().min(start as usize)).rev().find(|k| text.is_char_boundary(*k)).unwrap_or(0);
        let end = (end as usize..text.len()).find(|k| text.is_char_boundary(*k)).unwrap_or(text.len());
        for c in text[byte..start].chars() {
            chars += 1;
            if c == '\n' {
                line += 1;
                line_start = chars;
            }
        }
        byte = start;
        let column = chars - line_start + 1;
        let rest = text[byte..].split('\n').next().unwrap_or("");
        let behind = rest.chars().take(MAX_LINE).count();
        let marked = text.get(start..end).map_or(0, |marked| marked.chars().take(behind).count());
        places[k] = Some(Place {
            start: chars,
            end: chars + marked.min(behind),
            line,
            column,
            shown: column + behind <= MAX_LINE,
        });
    }
    places.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(start: usize, end: usize) -> Diagnostic {
        Diagnostic::new("out-of-bounds", Span::new(start, end), "expected this, found that").help("do something")
    }

    #[test]
    fn render_points_at_the_place() {
        let text = "param größe : real\n\tΣ i < n. x[i + 1]\n";
        let start = text.find("i + 1").unwrap();
        let shown = render("a.iv", text, &[at(start, start + 5)], false);
        let expected = "\
[out-of-bounds] Error: expected this, found that
   ╭─[ a.iv:2:13 ]
   │
 2 │     Σ i < n. x[i + 1]
   │                ──┬──  
   │                  ╰──── here
   │ 
   │ Help: do something
───╯
";
        assert_eq!(shown, expected, "\n{shown}");
        for render in [render, render_warnings] {
            assert!(render("a.iv", text, &[at(start, start + 5)], true).contains('\u{1b}'));
            assert!(!render("a.iv", text, &[at(start, start + 5)], false).contains('\u{1b}'));
        }
    }

    #[test]
    fn render_accepts_any_span() {
        let long = format!("{}\nx", "y".repeat(2000));
        for text in ["", "\n", "a", "ß∑\r\n\u{2028}\u{b}é\u{1b}[0m\tx", "a\n\nb\n", long.as_str()] {
            let len = text.len();
            let mut offsets: Vec<usize> = (0..len.min(30)).collect();
            offsets.extend([len, len + 1, len + 5, len.saturating_sub(1), u32::MAX as usize]);
            for start in &offsets {
                for end in &offsets {
                    let shown = render("a\u{1b}.iv", text, &[at(*start, *end), at(*end, *start)], false);
                    assert_eq!(shown.matches("expected this").count(), 2);
                    assert!(!shown.contains('\u{1b}'));
                }
            }
        }
    }

    #[test]
    fn render_keeps_the_order_and_cuts_long_lines() {
        let text = format!("a\n{}z\nb", "y".repeat(1000));
        let shown = render("f.iv", &text, &[at(1004, 1005), at(0, 1), at(1002, 1003)], false);
        assert!(shown.starts_with("[out-of-bounds] Error: expected this, found that\n   ╭─[ f.iv:3:1 ]"), "{shown}");
        assert!(shown.contains("f.iv:1:1") && shown.contains("at f.iv:2:1001"), "{shown}");
        assert!(shown.lines().all(|line| line.chars().count() < 100), "{shown}");
    }

    #[test]
    fn render_other_errors_as_their_message() {
        let error = Error::Limitation { feature: "bags".into(), span: Some(Span::new(0, 1)) };
        assert!(render_error("a.iv", "x", &error, false).contains("a.iv:1:1"));
        assert_eq!(
            render_error("a.iv", "x", &Error::Overflow, false),
            "Error: an index expression leaves the range of 64-bit integers\n"
        );
    }
}
