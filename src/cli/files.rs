//! Reading programs and inputs, writing results.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::path::Path;

use iverson::ir::ty::Signature;
use iverson::tensor::io::{FileValue, read_value_and_notes, write_value};
use iverson::tensor::{Inputs, Value};
use iverson::{Error, Result};

use super::shown;

/// Reads a program text; `-` is standard input.
pub(super) fn read_text(path: &Path) -> Result<String> {
    let subject = shown(path);
    let failed = |error: std::io::Error| Error::data(&subject, format!("this file cannot be read: {error}"));
    let mut bytes = Vec::new();
    let most = iverson::ir::surface::MAX_TEXT as u64 + 1;
    // One byte over the limit is enough for the parser to refuse the text.
    if path == Path::new("-") {
        std::io::stdin().take(most).read_to_end(&mut bytes).map_err(failed)?;
    } else {
        std::fs::File::open(path).map_err(failed)?.take(most).read_to_end(&mut bytes).map_err(failed)?;
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Error::data(&subject, format!("a program is UTF-8 text, but byte {at} of this file is not"))
    })
}

/// The inputs given on the command line.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct InputArguments {
    /// A parameter, relation or map and the file that holds it: .npy .mtx .tns .csv; or a number.
    ///
    /// A component of a pair is `ab.0`. An archive .npz holds tensors by name and needs none itself.
    #[arg(long = "input", value_name = "NAME=FILE|NUMBER|FILE.npz")]
    inputs: Vec<String>,
    /// Inputs, as behind --input.
    #[arg(value_name = "NAME=FILE|NUMBER|FILE.npz")]
    unnamed: Vec<String>,
    /// A real parameter and its value.
    #[arg(long = "scalar", value_name = "NAME=NUMBER", allow_hyphen_values = true)]
    scalars: Vec<String>,
    /// A size that no input's shape determines.
    #[arg(long = "size", value_name = "NAME=NUMBER")]
    sizes: Vec<String>,
}

impl InputArguments {
    /// Whether nothing is given.
    pub(super) fn is_empty(&self) -> bool {
        self.inputs.is_empty() && self.unnamed.is_empty() && self.scalars.is_empty() && self.sizes.is_empty()
    }

    /// An error with one of the inputs, with the file that holds it.
    pub(super) fn with_file(&self, error: Error) -> Error {
        let Error::Data { subject, message } = &error else { return error };
        let given = self.inputs.iter().chain(&self.unnamed).filter_map(|argument| argument.split_once('='));
        let is_of_file = !message.starts_with("the program has no such");
        let file = given
            .into_iter()
            .find(|(name, text)| is_of_file && name == subject && name != text && number(text).is_none());
        match file {
            Some((name, file)) => Error::data(format!("{name}, of {file}"), message.as_str()),
            None => error,
        }
    }

    /// Reads all inputs of a program.
    pub(super) fn read(&self, signature: &Signature) -> Result<Inputs> {
        let mut inputs = Inputs::new();
        let mut given = BTreeSet::new();
        for argument in self.inputs.iter().chain(&self.unnamed) {
            if !argument.contains('=') && argument.ends_with(".npz") {
                let value = read(argument)?;
                if let FileValue::Archive(archive) = &value {
                    known_names(argument, archive.keys(), signature)?;
                    archive.keys().try_for_each(|name| once(name, &mut given))?;
                }
                inputs.file_value(signature, argument, value)?;
                continue;
            }
            let (name, path) = split(argument, "--input", "FILE or NAME=NUMBER", &mut given)?;
            if let Some(number) = number(path) {
                inputs.value(name, Value::scalar(number));
                continue;
            }
            let value = read(path)?;
            note_unused_numbers(signature, name, &value);
            inputs.file_value(signature, name, value)?;
        }
        for argument in &self.scalars {
            let (name, text) = split(argument, "--scalar", "NUMBER", &mut given)?;
            let number = number(text).ok_or_else(|| {
                Error::Request(format!("--scalar {name} takes a number such as 1.5 or -2e-3, found `{text}`"))
            })?;
            inputs.value(name, Value::scalar(number));
        }
        for argument in &self.sizes {
            let (name, text) = split(argument, "--size", "NUMBER", &mut given)?;
            let size = text
                .parse()
                .map_err(|_| Error::Request(format!("--size {name} takes a whole number, found `{text}`")))?;
            inputs.size(name, size);
        }
        inputs.check_names(signature)?;
        Ok(inputs)
    }
}

/// Refuses an archive with a tensor that the program does not take, and says which of its inputs the archive does not hold.
fn known_names<'n>(file: &str, names: impl Iterator<Item = &'n String>, signature: &Signature) -> Result<()> {
    let names: Vec<&String> = names.collect();
    let params = signature.params.values().map(|param| param.name.as_str());
    let relations = signature.relations.values().filter(|relation| relation.kind.is_given());
    let relations = relations.map(|relation| relation.name.as_str());
    let inputs: Vec<&str> = params.chain(relations).chain(signature.sizes.values().map(String::as_str)).collect();
    let Some(unknown) = names.iter().find(|name| !inputs.iter().any(|input| is_part(name, input))) else {
        return Ok(());
    };
    let of_sizes = |input: &&&str| !signature.sizes.values().any(|size| size == **input);
    let missing: Vec<String> = inputs
        .iter()
        .filter(of_sizes)
        .filter(|input| !names.iter().any(|name| is_part(name, input)))
        .map(|input| format!("`{input}`"))
        .collect();
    let missing = match missing.as_slice() {
        [] => String::new(),
        missing => format!(", and does not hold {}", missing.join(", ")),
    };
    let help = "rename it in the archive, or give the tensors by NAME=FILE";
    Err(Error::data(file, format!("this archive holds `{unknown}`, which the program does not take{missing}; {help}")))
}

/// Adds seeds or tangents, `NAME=FILE` or `NAME=NUMBER`: those of `needed`, which are parameters of the derivative.
pub(super) fn read_seeds(
    inputs: &mut Inputs,
    signature: &Signature,
    needed: &[String],
    seeds: &[String],
) -> Result<()> {
    let mut given = BTreeSet::new();
    for argument in seeds {
        let (name, text) = split(argument, "--seed", "FILE or NAME=NUMBER", &mut given)?;
        if !needed.iter().any(|param| is_part(name, param)) {
            let takes = match needed {
                [] => "none".to_owned(),
                needed => needed.join(", "),
            };
            return Err(Error::Request(format!("the derivative has no seed `{name}`; its seeds: {takes}")));
        }
        match number(text) {
            Some(x) => inputs.value(name, Value::scalar(x)),
            None => inputs.file_value(signature, name, read(text)?)?,
        };
    }
    let mut missing = Vec::new();
    for param in signature.params.values().filter(|param| needed.contains(&param.name)) {
        for (name, axes) in inputs.missing_components(signature, param)? {
            missing.push(format!("--seed {name}=FILE{}", if axes == 0 { "|NUMBER" } else { "" }));
        }
    }
    match missing.as_slice() {
        [] => Ok(()),
        missing => Err(Error::Request(format!("the derivative needs these seeds: {}", missing.join(" ")))),
    }
}

/// Whether `name` is `param` or a component of it, as `ab.0` of `ab`.
fn is_part(name: &str, param: &str) -> bool {
    name.strip_prefix(param).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// `NAME=..`, each name once.
fn split<'a>(argument: &'a str, option: &str, what: &str, given: &mut BTreeSet<String>) -> Result<(&'a str, &'a str)> {
    let (name, text) = argument
        .split_once('=')
        .filter(|(name, text)| !name.is_empty() && !text.is_empty())
        .ok_or_else(|| Error::Request(format!("{option} takes NAME={what}, found `{argument}`")))?;
    once(name, given)?;
    Ok((name, text))
}

/// Refuses a name that was given before.
fn once(name: &str, given: &mut BTreeSet<String>) -> Result<()> {
    match given.insert(name.to_owned()) {
        true => Ok(()),
        false => Err(Error::Request(format!("`{name}` is given twice"))),
    }
}

/// Reads a file, and says on standard error what of it was taken for no data.
fn read(path: &str) -> Result<FileValue> {
    let mut notes = Vec::new();
    let value = read_value_and_notes(path, &mut notes)?;
    for note in notes {
        // With standard error gone there is nobody left to tell.
        let _ = writeln!(std::io::stderr(), "note: {note}");
    }
    Ok(value)
}

/// Says that the numbers of a sparse file are not used, where it is given for a relation or a map and has others than 1.
fn note_unused_numbers(signature: &Signature, name: &str, value: &FileValue) {
    let numbers = match value {
        FileValue::Csr(csr) => csr.data(),
        FileValue::Coo(coo) => coo.data(),
        _ => return,
    };
    let is_relation = signature.relations.values().any(|relation| relation.name == name);
    if is_relation && numbers.iter().any(|x| *x != 1.0) {
        let _ = writeln!(
            std::io::stderr(),
            "note: {name}: the numbers of the file are not used: each of its entries is a tuple, those that are 0 as well"
        );
    }
}

/// A number; one beyond the range of floats is none.
fn number(text: &str) -> Option<f64> {
    let x: f64 = text.parse().ok()?;
    (x.is_finite() || !text.contains(|c: char| c.is_ascii_digit())).then_some(x)
}

/// Writes a result: `NAME.npy`, or `NAME.mtx` or `NAME.tns` where it is sparse, with `_0`, `_1`, .. for several components.
pub(super) fn write_result(directory: &Path, name: &str, value: &Value) -> Result<Vec<String>> {
    let several = value.leaves().len() > 1;
    let mut written = Vec::new();
    for (at, leaf) in value.leaves().iter().enumerate() {
        let extension = leaf.sparse_format().map_or("npy", |format| format.capabilities().extension);
        let file = if several { format!("{name}_{at}.{extension}") } else { format!("{name}.{extension}") };
        let path = directory.join(&file);
        write_value(&path, &FileValue::from(leaf.as_ref().clone()))?;
        written.push(path.display().to_string());
    }
    Ok(written)
}
