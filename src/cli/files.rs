//! Reading programs and inputs, writing results.

use std::io::Read;
use std::path::Path;

use iverson::tensor::io::{FileValue, read_value, write_value};
use iverson::tensor::{Inputs, Tensor, Value};
use iverson::ty::Signature;
use iverson::{Error, Result};

/// Reads a program text; `-` is standard input.
pub(super) fn read_text(path: &Path) -> Result<String> {
    let subject = path.display().to_string();
    let failed = |error: std::io::Error| Error::data(&subject, format!("cannot be read: {error}"));
    let mut bytes = Vec::new();
    let most = iverson::surface::MAX_TEXT as u64 + 1;
    // One byte over the limit is enough for the parser to refuse the text.
    if path == Path::new("-") {
        std::io::stdin().take(most).read_to_end(&mut bytes).map_err(failed)?;
    } else {
        std::fs::File::open(path).map_err(failed)?.take(most).read_to_end(&mut bytes).map_err(failed)?;
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Error::data(&subject, format!("is not UTF-8 text: byte {at} cannot be read"))
    })
}

/// The inputs given on the command line.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct InputArguments {
    /// A parameter, relation or map and the file that holds it: .npy .npz .mtx .tns .csv. A component of a pair is `ab.0`.
    #[arg(long = "input", value_name = "NAME=FILE")]
    inputs: Vec<String>,
    /// A real parameter and its value.
    #[arg(long = "scalar", value_name = "NAME=NUMBER", allow_hyphen_values = true)]
    scalars: Vec<String>,
    /// A size that no input's shape determines.
    #[arg(long = "size", value_name = "NAME=NUMBER")]
    sizes: Vec<String>,
}

impl InputArguments {
    /// Reads all inputs of a program.
    pub(super) fn read(&self, signature: &Signature) -> Result<Inputs> {
        let mut inputs = Inputs::new();
        for argument in &self.inputs {
            let (name, path) = split(argument, "--input", "FILE")?;
            inputs.file_value(signature, name, read_value(path)?)?;
        }
        for argument in &self.scalars {
            let (name, text) = split(argument, "--scalar", "NUMBER")?;
            inputs.value(name, Value::scalar(number(name, text)?));
        }
        for argument in &self.sizes {
            let (name, text) = split(argument, "--size", "NUMBER")?;
            let size = text.parse().map_err(|_| Error::data(name, format!("a size is an integer, found `{text}`")))?;
            inputs.size(name, size);
        }
        Ok(inputs)
    }
}

/// Adds seeds or tangents: `NAME=FILE` or `NAME=NUMBER`.
pub(super) fn read_seeds(inputs: &mut Inputs, signature: &Signature, seeds: &[String]) -> Result<()> {
    for argument in seeds {
        let (name, text) = split(argument, "--seed", "FILE or NUMBER")?;
        match text.parse::<f64>() {
            Ok(x) => inputs.value(name, Value::scalar(x)),
            Err(_) => inputs.file_value(signature, name, read_value(text)?)?,
        };
    }
    Ok(())
}

fn split<'a>(argument: &'a str, option: &str, what: &str) -> Result<(&'a str, &'a str)> {
    argument.split_once('=').ok_or_else(|| Error::Request(format!("{option} takes NAME={what}, found `{argument}`")))
}

fn number(name: &str, text: &str) -> Result<f64> {
    text.parse().map_err(|_| Error::data(name, format!("a number is expected, found `{text}`")))
}

/// Writes a result: `NAME.npy`, or `NAME.mtx` or `NAME.tns` where it is sparse, with `_0`, `_1`, .. for several components.
pub(super) fn write_result(directory: &Path, name: &str, value: &Value) -> Result<Vec<String>> {
    let several = value.leaves().len() > 1;
    let mut written = Vec::new();
    for (at, leaf) in value.leaves().iter().enumerate() {
        let extension = match leaf.as_ref() {
            Tensor::Dense(_) => "npy",
            Tensor::Csr(_) => "mtx",
            Tensor::Coo(_) => "tns",
        };
        let file = if several { format!("{name}_{at}.{extension}") } else { format!("{name}.{extension}") };
        let path = directory.join(&file);
        write_value(&path, &FileValue::from(leaf.as_ref().clone()))?;
        written.push(path.display().to_string());
    }
    Ok(written)
}
