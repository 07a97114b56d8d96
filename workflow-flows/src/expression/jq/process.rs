use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin, ChildStdout, Command};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use super::super::{ExpressionError, ExpressionLimits};
use super::answer::Answer;
use super::request::Request;

/// The time of one evaluation on the clock.
const LAST_DEADLINE: Duration = Duration::from_secs(30);
/// The time until a new process is ready: the program is loaded and linked.
const START_DEADLINE: Duration = Duration::from_secs(10);
/// Bytes of addresses over those at its start and its memory: a second bound, for what is no data.
const ADDRESS_BYTES: u64 = 192 << 20;
/// The stack is this part of the memory, because the kernel does not count it as data.
const STACK_PART: u64 = 8;
/// Seconds of processor time in the life of a process. It is replaced long before.
const LIFE_SECONDS: u64 = 10;
/// Processor time after which a process is replaced. The longest program then fits into its life.
const LIFE: Duration = Duration::from_secs(5);
/// Bytes of an answer beside its outputs, which the helper itself bounds: a message, at most.
const MESSAGE_BYTES: usize = 64 << 10;

/// A helper process. It is killed when this is dropped.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    busy: Duration,
    limits: ExpressionLimits,
}

impl Process {
    /// Starts a process and limits it, before it sees a program.
    pub(super) fn start(mut command: Command, limits: ExpressionLimits) -> Result<Self, ExpressionError> {
        let failed = |what: &str, error: &io::Error| {
            ExpressionError::Failed(format!("the helper process of jq cannot {what}: {error}"))
        };
        let mut child = command.spawn().map_err(|error| failed("start", &error))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            let _ = child.kill();
            return Err(ExpressionError::Failed("the helper process of jq has no pipes".to_owned()));
        };
        let mut process = Self { child, input, output, busy: Duration::ZERO, limits };
        process.unblock().map_err(|error| failed("be reached", &error))?;
        let ready =
            process.exchange(&[], Instant::now() + START_DEADLINE, Instant::now()).map_err(|broken| match broken {
                Broken::Failed(error) => failed("start", &error),
                _ => ExpressionError::Failed("the helper process of jq does not answer as one".to_owned()),
            })?;
        if ready != b"ready" {
            return Err(ExpressionError::Failed("the helper process of jq does not answer as one".to_owned()));
        }
        process.limit().map_err(|error| failed("be limited", &error))?;
        Ok(process)
    }

    /// Returns whether the process can take a request.
    pub(super) fn is_fresh(&mut self) -> bool {
        let is_young = self.busy < LIFE || processor_time(self.child.id()) < LIFE;
        is_young && matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends a request and waits for its answer, until the program has had its processor time.
    pub(super) fn ask(&mut self, request: &Request) -> Result<Answer, Broken> {
        let begun = Instant::now();
        let line = self.exchange(&request.line, begun + self.limits.jq_time, begun + LAST_DEADLINE)?;
        self.busy += begun.elapsed();
        serde_json::from_slice(&line).map_err(|error| Broken::Failed(error.into()))
    }

    fn unblock(&self) -> io::Result<()> {
        for pipe in [self.input.as_fd(), self.output.as_fd()] {
            fcntl_setfl(pipe, fcntl_getfl(pipe)? | OFlags::NONBLOCK)?;
        }
        Ok(())
    }

    fn limit(&self) -> io::Result<()> {
        let memory = self.limits.jq_memory as u64;
        let stack = memory / STACK_PART;
        let addresses = address_bytes(self.child.id())?.saturating_add(memory + ADDRESS_BYTES);
        let pid = Pid::from_child(&self.child);
        let limits = [
            (Resource::Data, memory - stack),
            (Resource::Stack, stack),
            (Resource::As, addresses),
            (Resource::Cpu, LIFE_SECONDS),
            (Resource::Core, 0),
            (Resource::Fsize, 0),
            (Resource::Nofile, 3),
        ];
        for (resource, limit) in limits {
            prlimit(Some(pid), resource, Rlimit { current: Some(limit), maximum: Some(limit) })?;
        }
        Ok(())
    }

    /// Says how the process ended, which had had this processor time.
    fn ended(&self, before: Duration) -> Broken {
        // The process stays in the table until it is waited for.
        let had = processor_time(self.child.id()).saturating_sub(before);
        if had <= TICK { Broken::Gone } else { Broken::Ended }
    }

    /// Writes bytes and reads one line, without its end. At the deadline, a process that has not
    /// had its processor time is given more, up to the last deadline: a program that waits for a
    /// loaded machine is not at fault.
    fn exchange(&mut self, bytes: &[u8], mut deadline: Instant, last: Instant) -> Result<Vec<u8>, Broken> {
        let before = processor_time(self.child.id());
        let mut unsent = bytes;
        let mut line = Vec::new();
        let mut buffer = vec![0; 64 << 10];
        loop {
            let now = Instant::now();
            if now >= deadline {
                let had = processor_time(self.child.id()).saturating_sub(before);
                let owed = self.limits.jq_time.checked_sub(had).filter(|owed| !owed.is_zero() && now < last);
                deadline = now + owed.ok_or(Broken::Late(self.limits.jq_time))?.max(TICK);
            }
            let timeout = Timespec::try_from(deadline - now).map_err(|_| Broken::Late(self.limits.jq_time))?;
            let mut pipes = vec![PollFd::new(&self.output, PollFlags::IN)];
            if !unsent.is_empty() {
                pipes.push(PollFd::new(&self.input, PollFlags::OUT));
            }
            match poll(&mut pipes, Some(&timeout)) {
                Ok(0) => continue,
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(Broken::Failed(error.into())),
            }
            if !unsent.is_empty() {
                match self.input.write(unsent) {
                    Ok(written) => unsent = unsent.get(written..).unwrap_or(&[]),
                    Err(error) if is_temporary(&error) => {}
                    Err(error) if error.kind() == ErrorKind::BrokenPipe => return Err(self.ended(before)),
                    Err(error) => return Err(Broken::Failed(error)),
                }
            }
            match self.output.read(&mut buffer) {
                Ok(0) => return Err(self.ended(before)),
                Ok(count) => line.extend_from_slice(buffer.get(..count).unwrap_or(&[])),
                Err(error) if is_temporary(&error) => {}
                Err(error) => return Err(Broken::Failed(error)),
            }
            if line.last() == Some(&b'\n') {
                line.pop();
                return Ok(line);
            }
            if line.len() > self.limits.jq_output_bytes + MESSAGE_BYTES {
                return Err(Broken::Large);
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A process that has ended already cannot be killed, but is waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How an exchange ended without an answer.
pub(super) enum Broken {
    /// The program has had this processor time.
    Late(Duration),
    Large,
    Ended,
    /// The process ended before it had worked on the request.
    Gone,
    Failed(io::Error),
}

impl From<Broken> for ExpressionError {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Late(time) => Self::Budget(format!("the program takes longer than {} ms", time.as_millis())),
            Broken::Large => Self::Budget("the outputs are too large".to_owned()),
            Broken::Ended | Broken::Gone => {
                Self::Budget("the program takes too much memory or calls itself too deep".to_owned())
            }
            Broken::Failed(error) => Self::Failed(format!("the helper process of jq gives no answer: {error}")),
        }
    }
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// The kernel counts processor time in these.
const TICK: Duration = Duration::from_millis(10);

/// Returns the processor time of a process, or none if it has gone.
fn processor_time(pid: u32) -> Duration {
    let statistics = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name of the program stands in parentheses and may hold anything.
    let fields = statistics.rsplit_once(") ").map_or("", |(_, fields)| fields);
    let ticks: u32 = fields.split(' ').skip(11).take(2).filter_map(|ticks| ticks.parse::<u32>().ok()).sum();
    TICK * ticks
}

/// Returns the bytes of addresses that a process has.
fn address_bytes(pid: u32) -> io::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let kib =
        status.lines().find_map(|line| line.strip_prefix("VmSize:")?.trim().strip_suffix(" kB")?.trim().parse().ok());
    kib.map(|kib: u64| kib * 1024).ok_or_else(|| io::Error::other("no VmSize"))
}
