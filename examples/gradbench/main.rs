//! A tool of GradBench: reads its messages from standard input, and answers them.
//!
//! ```text
//! gradbench run --eval 'gradbench eval gmm' --tool 'cargo run --release --example gradbench'
//! ```
//!
//! Functions are derived when an evaluation defines its module, and bound to the sizes of its arguments when it evaluates them. Times of
//! single runs have neither; a run begins with arguments and ends with results in memory, in the form that the evaluation defines but for JSON.

mod bundle;
mod evaluations;
mod protocol;

use std::collections::HashMap;
use std::error::Error;
use std::io::{BufRead, Write};
use std::time::Instant;

use iverson::kernel::Engine;

use evaluations::Module;
use protocol::{Answer, Message, Response, Timing};

/// What was defined so far.
struct Tool {
    engine: Engine,
    modules: HashMap<String, Module>,
}

impl Tool {
    fn answer(&mut self, message: Message) -> Result<Answer, Box<dyn Error>> {
        match message.kind.as_str() {
            "start" => Ok(Answer::Started { tool: "iverson" }),
            "define" => {
                let start = Instant::now();
                let module = Module::define(&message.module)?;
                self.modules.insert(message.module, module);
                Ok(Answer::Defined { success: true, timings: vec![Timing::new("derive", start.elapsed())] })
            }
            "evaluate" => {
                let module = self.modules.get(&message.module);
                let module = module.ok_or_else(|| format!("the module `{}` was not defined", message.module))?;
                let (output, timings) = module.evaluate(&message.function, message.input, self.engine)?;
                Ok(Answer::Evaluated { success: true, output, timings })
            }
            _ => Ok(Answer::Acknowledged {}),
        }
    }
}

/// Answers all messages, line by line.
pub fn serve(messages: &mut dyn BufRead, out: &mut dyn Write, engine: Engine) -> Result<(), Box<dyn Error>> {
    let mut tool = Tool { engine, modules: HashMap::new() };
    let mut line = Vec::new();
    loop {
        line.clear();
        if messages.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let response = match serde_json::from_slice::<Message>(&line) {
            Ok(message) => {
                let id = message.id.clone();
                Response { id, answer: tool.answer(message).unwrap_or_else(Answer::failed) }
            }
            Err(error) => Response { id: protocol::id(&line), answer: Answer::failed(error) },
        };
        serde_json::to_writer(&mut *out, &response)?;
        writeln!(out)?;
        out.flush()?;
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    serve(&mut std::io::stdin().lock(), &mut std::io::stdout().lock(), Engine::Native)
}
