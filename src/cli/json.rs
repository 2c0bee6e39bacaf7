//! Results and problems as JSON, for programs that call this one.
//!
//! A number is a number, and a dense tensor nested lists of them. A sparse tensor is an object with its `format`, its `shape`, the places of
//! its entries as `indices`, and their `values`. NaN and infinities, which JSON has not, are the texts `"NaN"`, `"Infinity"` and `"-Infinity"`. A
//! result of several components is a list of them.

use iverson::Error;
use iverson::error::{Diagnostic, Origin};
use iverson::ir::surface;
use iverson::tensor::{Tensor, Value};
use serde_json::{Value as Json, json};

/// A number, of what is no number its name.
fn number(x: f64) -> Json {
    match serde_json::Number::from_f64(x) {
        Some(x) => Json::Number(x),
        None if x.is_nan() => json!("NaN"),
        None => json!(if x > 0.0 { "Infinity" } else { "-Infinity" }),
    }
}

/// A count, rounded where it does not fit.
pub(super) fn count(n: u128) -> Json {
    u64::try_from(n).map_or_else(|_| json!(n as f64), Json::from)
}

/// A result.
pub(super) fn value(value: &Value) -> Json {
    match value.leaves() {
        [leaf] => tensor(leaf),
        leaves => leaves.iter().map(|leaf| tensor(leaf)).collect(),
    }
}

fn tensor(tensor: &Tensor) -> Json {
    let numbers: Vec<Json> = tensor.lexicographic().iter().map(|x| number(*x)).collect();
    match tensor.pattern() {
        None => nested(&tensor.shape(), numbers),
        Some(places) => json!({
            "format": tensor.format(),
            "shape": tensor.shape(),
            "indices": places.tuples().collect::<Vec<_>>(),
            "values": numbers,
        }),
    }
}

/// Numbers in row-major order as lists of lists, from the last axis on.
fn nested(shape: &[usize], mut items: Vec<Json>) -> Json {
    let Some((outer, inner)) = shape.split_first() else { return items.pop().unwrap_or(Json::Null) };
    for (axis, length) in inner.iter().enumerate().rev() {
        let rows: usize = outer * inner[..axis].iter().product::<usize>();
        let mut numbers = items.into_iter();
        items = (0..rows).map(|_| numbers.by_ref().take(*length).collect()).collect();
    }
    Json::Array(items)
}

/// Problems of a text with their places, or one of data, of what was asked for, or of a limit, which has none.
pub(super) fn problems(error: &Error, text: &str) -> Json {
    match error {
        Error::Program(problems) => diagnostics(problems),
        Error::Limitation { span: Some(span), .. } => {
            let mut problem = [Diagnostic::new("limitation", *span, error.to_string())];
            surface::locate(text, &mut problem);
            diagnostics(&problem)
        }
        error => json!([{ "message": error.to_string() }]),
    }
}

/// Problems or warnings, with their places: bytes of the text, and lines and columns from 1.
pub(super) fn diagnostics(found: &[Diagnostic]) -> Json {
    let one = |problem: &Diagnostic| {
        let mut object = json!({
            "code": problem.code,
            "start": problem.span.start,
            "end": problem.span.end,
            "message": problem.message,
        });
        if let Some(Origin::Text { line, column, .. }) = &problem.origin {
            object["line"] = json!(line);
            object["column"] = json!(column);
        }
        if let Some(help) = &problem.help {
            object["help"] = json!(help);
        }
        object
    };
    found.iter().map(one).collect()
}
