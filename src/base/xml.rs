//! Text in XML and HTML: whatever it is, it shows as itself.

use std::fmt::Write;

/// The text with `<`, `>`, `&`, `"` and `'` escaped, for contents and values of attributes. Characters that no XML document may hold become U+FFFD.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + text.len() / 8);
    for c in text.chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\t' | '\n' => escaped.push(c),
            // Marks that turn the direction of what follows are shown, not obeyed.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                // Writing to a string does not fail.
                let _ = write!(escaped, "\\u{{{:x}}}", u32::from(c));
            }
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            c if c.is_control() => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn text_shows_as_itself() {
        assert_eq!(escape("a < b && c > \"d'\"\n"), "a &lt; b &amp;&amp; c &gt; &quot;d&#39;&quot;\n");
        assert_eq!(escape("\u{0}\u{1b}[0m\r\u{fffe}"), "\u{fffd}\u{fffd}[0m\u{fffd}\u{fffd}");
        assert_eq!(escape("x\u{202e}y"), "x\\u{202e}y");
    }
}
