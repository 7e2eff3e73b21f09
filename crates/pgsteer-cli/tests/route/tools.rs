//! Echo servers, routers and loads, with what they tell.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

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

/// A router.
pub(crate) struct Router {
    pub(crate) process: Process,
    pub(crate) address: String,
    metrics: String,
}

impl Router {
    /// In front of these backends.
    pub(crate) fn start(backends: &[&Echo], options: &[&str]) -> Self {
        let mut arguments = vec!["route", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"];
        for backend in backends {
            arguments.extend(["--backend", &backend.address]);
        }
        arguments.extend(options);
        let mut process = Process::start(&arguments);
        let address = listening(&mut process);
        let line = process.line();
        let metrics = line.strip_prefix("metrics on ");
        Router {
            metrics: metrics.unwrap_or_else(|| panic!("it says: {line}")).to_owned(),
            process,
            address,
        }
    }

    /// A figure that it tells of itself.
    pub(crate) fn figure(&self, name: &str) -> u64 {
        self.figures(name).into_iter().map(|(_, figure)| figure).sum()
    }

    /// A figure that it tells of a backend.
    pub(crate) fn figure_of(&self, name: &str, backend: &Echo) -> u64 {
        let label = format!("backend=\"{}\"", backend.address);
        let figures = self.figures(name);
        let of_backend = figures.iter().find(|(labels, _)| labels.contains(&label));
        of_backend
            .unwrap_or_else(|| panic!("no {name} of {label}: {figures:?}"))
            .1
    }

    fn figures(&self, name: &str) -> Vec<(String, u64)> {
        let text = self.get("/metrics").expect("it tells");
        let ours = |line: &str| {
            let rest = line.strip_prefix("pgsteer_router_")?.strip_prefix(name)?;
            let (labels, figure) = rest.strip_prefix("_total").unwrap_or(rest).split_once(' ')?;
            let alone = labels.is_empty() || labels.starts_with('{');
            alone.then_some((labels.to_owned(), figure.parse().ok()?))
        };
        let figures: Vec<(String, u64)> = text.lines().filter_map(ours).collect();
        assert!(!figures.is_empty(), "no {name}: {text}");
        figures
    }

    /// Whether it says that new clients are welcome.
    pub(crate) fn is_ready(&self) -> bool {
        self.get("/readyz")
            .is_some_and(|answer| answer.starts_with("HTTP/1.1 200"))
    }

    /// The answer to a request by HTTP, if there is one.
    fn get(&self, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect(&self.metrics).ok()?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: router\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
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

    /// Fails if any answer was another error than this.
    pub(crate) fn assert_no_error_but(&self, text: &str) {
        let errors = self.total["errors"].as_object().expect("errors by their text");
        assert!(errors.keys().all(|known| known == text), "{:#}", self.total);
    }

    /// Fails unless every request was answered.
    pub(crate) fn assert_all_answered(&self) {
        self.assert_sound();
        assert_eq!(self.count("answered"), self.count("sent"), "{:#}", self.total);
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
