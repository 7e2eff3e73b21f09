//! Echo servers and loads, with what the loads tell.

use serde_json::Value;

use crate::process::{Ended, Process};

/// An echo server.
pub(crate) struct Echo {
    pub(crate) process: Process,
    pub(crate) address: String,
}

impl Echo {
    /// On a port that the system chooses.
    pub(crate) fn start(options: &[&str]) -> Self {
        Echo::start_at("127.0.0.1:0", options)
    }

    pub(crate) fn start_at(address: &str, options: &[&str]) -> Self {
        let mut process = Process::start(&[&["echo", "--listen", address], options].concat());
        let address = listening(&mut process);
        Echo { process, address }
    }
}

/// The address in the line that tells of it.
pub(crate) fn listening(process: &mut Process) -> String {
    let line = process.line();
    let address = line.strip_prefix("listening on ");
    address.unwrap_or_else(|| panic!("it says: {line}")).to_owned()
}

/// A load under way.
pub(crate) struct Load {
    process: Process,
}

/// What a load came to.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) code: Option<i32>,
    /// One object a second, as far as they were not read before, and others.
    pub(crate) lines: Vec<Value>,
    pub(crate) total: Value,
    pub(crate) stderr: String,
}

impl Load {
    pub(crate) fn start(target: &str, options: &[&str]) -> Self {
        Load {
            process: Process::start(&[&["load", "--json", "--target", target], options].concat()),
        }
    }

    /// The next object it prints.
    pub(crate) fn next(&mut self) -> Value {
        json(&self.process.line())
    }

    /// Waits for a second in which something was answered.
    pub(crate) fn until_answered(&mut self) {
        while self.next()["answered"].as_u64() == Some(0) {}
    }

    pub(crate) fn process(&self) -> &Process {
        &self.process
    }

    /// Waits for its end.
    pub(crate) fn end(self) -> Account {
        let Ended { code, stdout, stderr } = self.process.end();
        let mut lines: Vec<Value> = stdout.iter().map(|line| json(line)).collect();
        let total = lines
            .pop()
            .unwrap_or_else(|| panic!("it says nothing more: {stderr}"));
        assert_eq!(total["type"], "total", "{stderr}");
        Account {
            code,
            lines,
            total,
            stderr,
        }
    }
}

/// Runs a load to its end.
pub(crate) fn load(target: &str, options: &[&str]) -> Account {
    Load::start(target, options).end()
}

fn json(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

impl Account {
    /// A figure of the total, or the sum of its figures by cause.
    pub(crate) fn count(&self, name: &str) -> u64 {
        sum(&self.total[name])
    }

    /// How often this was lost by this cause.
    pub(crate) fn lost(&self, cause: &str) -> u64 {
        sum(&self.total["lost"][cause])
    }

    /// Fails unless every request sent is accounted for, and no answer was one that no router may give.
    pub(crate) fn assert_sound(&self) {
        // What was sent in the warm-up may be answered after it.
        let all = |name: &str| self.count(name) + sum(&self.total["warmup"][name]);
        let accounted: u64 = [
            "answered",
            "errors",
            "lost",
            "turned_away",
            "crossed",
            "corrupted",
        ]
        .into_iter()
        .map(all)
        .sum();
        assert_eq!(all("sent"), accounted, "{:#}", self.total);
        for wrong in ["duplicated", "crossed", "corrupted"] {
            assert_eq!(all(wrong), 0, "{wrong}: {:#}", self.total);
        }
    }
}

fn sum(value: &Value) -> u64 {
    match value {
        Value::Object(by_cause) => by_cause.values().map(sum).sum(),
        Value::Null => 0,
        figure => figure.as_u64().unwrap_or_else(|| panic!("{figure} is no count")),
    }
}
