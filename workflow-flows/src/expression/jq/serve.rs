use std::collections::HashMap;
use std::io::{self, BufRead, Write};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use super::answer::Answer;
use super::filter::Filter;
use super::request::Read;

/// Compiled programs that are kept. More than these begin a new cache.
const MOST_FILTERS: usize = 256;

/// Serves requests until the standard input ends, then ends the process.
///
/// A thread of its own reads, so the process ends with its parent also during an evaluation.
pub(super) fn serve() -> ! {
    let (sender, lines) = sync_channel(1);
    let reader = thread::Builder::new().stack_size(256 << 10).spawn(move || {
        let mut input = io::stdin().lock();
        loop {
            let mut line = Vec::new();
            match input.read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => end(),
                Ok(_) => {
                    if sender.send(line).is_err() {
                        end();
                    }
                }
            }
        }
    });
    if reader.is_ok() {
        // A failed write has the cause that the reader finds: the parent has gone.
        let _ = answer_all(&lines);
    }
    end()
}

#[expect(clippy::exit, reason = "a helper process has nothing to clean up")]
fn end() -> ! {
    std::process::exit(0)
}

fn answer_all(lines: &Receiver<Vec<u8>>) -> io::Result<()> {
    let mut output = io::stdout().lock();
    // The parent sets the limits after this line, before it sends the first program.
    output.write_all(b"ready\n")?;
    output.flush()?;
    let mut filters = HashMap::new();
    while let Ok(line) = lines.recv() {
        let answer = answer(&mut filters, &line)
            .unwrap_or_else(|refused| serde_json::to_string(&refused).unwrap_or_else(|_| "{}".to_owned()));
        output.write_all(answer.as_bytes())?;
        output.write_all(b"\n")?;
        output.flush()?;
    }
    Ok(())
}

fn answer(filters: &mut HashMap<String, Filter>, line: &[u8]) -> Result<String, Answer> {
    let request: Read<'_> = serde_json::from_slice(line)
        .map_err(|error| Answer::Failed(format!("the helper cannot read its request: {error}")))?;
    if !filters.contains_key(&request.program) {
        let filter = Filter::compile(&request.program)?;
        if filters.len() >= MOST_FILTERS {
            filters.clear();
        }
        filters.insert(request.program.clone(), filter);
    }
    match filters.get(&request.program) {
        Some(filter) if !request.check => filter.run(request.input.get(), request.outputs, request.output_bytes),
        _ => Ok("{\"outputs\":[]}".to_owned()),
    }
}
